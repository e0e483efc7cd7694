package cel

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func FuzzExpression(f *testing.F) {
	for _, source := range hostile {
		f.Add(source)
	}
	for _, name := range Functions() {
		f.Add(name + `(response.text, 1)`)
		f.Add(`response.json.jobs.` + name + `(x, x.ok)`)
		f.Add(`rollout.name.` + name + `("a", "b")`)
		f.Add(`response.json.tags.` + name + `()`)
	}
	given := vars(f)
	f.Fuzz(func(t *testing.T, source string) {
		x, err := newEnv(t).Value(source)
		if err != nil {
			return
		}
		var got [2]any
		var left [2]int
		for i := range got {
			budget := NewBudget()
			value, err := x.Value(context.Background(), budget, given)
			if budget.left < 0 || err != nil && strings.Contains(err.Error(), "internal error") {
				t.Fatalf("%d left, %v", budget.left, err)
			}
			encoded, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			got[i], left[i] = string(encoded), budget.left
		}
		if got[0] != got[1] || left[0] != left[1] {
			t.Errorf("evaluated twice: %v, %v left", got, left)
		}
	})
}

func FuzzText(f *testing.F) {
	for _, source := range []string{`a {{ rollout.name }} b`, `{{ "}}" }}{{ {"a": 1}.a }}`, `{{ r'\' }}`, `{{ """a"}}""" }}`, `{{`, `}}`, `{{ '\\'`} {
		f.Add(source)
	}
	given := vars(f)
	f.Fuzz(func(t *testing.T, source string) {
		text, err := newEnv(t).Text(source)
		if err != nil {
			return
		}
		if got, err := text.Render(context.Background(), NewBudget(), given); text.Constant() && (err != nil || got != source) || len(got) > maxText {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// FuzzURL: whatever a value is, it leads to no other host, and to no other path or query.
func FuzzURL(f *testing.F) {
	for _, value := range []string{"17", "a?b#c", "../x", "..", ".", "%2e", "//evil.com", "\\evil", "é\x00\xff", "@evil.com", ":80"} {
		f.Add(value)
	}
	text, err := newEnv(f).URL(`https://ci.example.com/a/{{ outputs.id }}/b?q={{ outputs.id }}&r=1`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, err := text.RenderLine(context.Background(), NewBudget(), Vars{"outputs": map[string]any{"id": value}})
		if err != nil {
			return
		}
		parsed, err := url.Parse(got)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Host != "ci.example.com" || parsed.Path != "/a/"+value+"/b" || parsed.Query().Get("q") != value || parsed.Query().Get("r") != "1" || parsed.Fragment != "" ||
			strings.Count(parsed.EscapedPath(), "/") != 3 {
			t.Errorf("%q is %s", value, got)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, source := range []string{`{"a": ["{{ weight }}", "{{ rollout.name }}!", 1.50, null]}`, `"{{ response.json }}"`, `[[["{{ [1] }}"]]]`, `{"": {}}`} {
		f.Add(source)
	}
	given := vars(f)
	f.Fuzz(func(t *testing.T, source string) {
		value, err := newEnv(t).JSON([]byte(source), nil)
		if err != nil {
			return
		}
		if got, err := value.Render(context.Background(), NewBudget(), given, nil); err == nil && !json.Valid(got) {
			t.Errorf("%s", got)
		}
	})
}

// FuzzPattern: a regular expression that is allowed compiles to about its weight.
func FuzzPattern(f *testing.F) {
	for _, source := range []string{"a*b", "(a|b){1,20}", `\pL{10}`, "(", "((x{10}){10}){10}", "[^a-z]+$"} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		m := &meter{Budget: NewBudget(), ctx: context.Background()}
		if _, err := weightOf(source); err != nil {
			return
		}
		_ = matches(m, textArgs("aaaa", source))
	})
}
