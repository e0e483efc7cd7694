package cel

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	for source, want := range map[string]string{
		``:          ``,
		`plain } {`: `plain } {`,
		`{{ rollout.name }}-{{weight}}{{ revision }}`:                                                 `shop-207`,
		`{{ rollout.labels["app.kubernetes.io/name"] }}{{ rollout.labels[?"nope"].orValue("none") }}`: `shopnone`,
		`{{ {"a": {"b": 1}}.a.b }}{{ "}}" }}{{ '\'}}' }}{{ r"\" }}{{ """a"}}""" }}`:                   `1}}'}}\a"}}`,
		`{{ response.json.id }} {{ response.json.ratio }} {{ response.json.flag }} {{ 1e20 }}`:        `9007199254740993 0.25 true 100000000000000000000`,
		`{{ rollout.labels.team }}{{ images.new.app.split(":")[1] }}`:                                 `a"bv2`,
		`{{ "{{" }}{{ 1 }}}}`:                              `{{1}}`,
		"{{\n  // why\n  weight > 10 ?\n \"a\" : \"b\" }}": `a`,
		`{{ response.json.map.map(k, k).join(",") }}`:      `a,b`,
		`{{ step.preset }}{{ step.index }}`:                `2`,
	} {
		text, err := newEnv(t).Text(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := text.Render(context.Background(), NewBudget(), vars(t)); err != nil || got != want {
			t.Errorf("%s: %q, %v", source, got, err)
		}
	}
}

func TestTextsThatCannotBe(t *testing.T) {
	for source, want := range map[string]string{
		`a {{ rollout.name`:             `there is no }} after it`,
		`{{ }}`:                         `unexpected end`,
		`{{ rollout.labels }}`:          `want a text, a number or a boolean, not an object`,
		`{{ rollout.labels[?"team"] }}`: `the value may be missing: .orValue("none") says what then`,
		`{{ [1] }}`:                     `want a text, a number or a boolean, not a list`,
		`{{ null }}`:                    `want a text, a number or a boolean, not nothing`,
		strings.Repeat("a", 65<<10):     `a text of more than 64 KiB is not allowed`,
		distinct(2000):                  `the expressions of the step have too many parts together`,
	} {
		if _, err := newEnv(t).Text(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", source, err, want)
		}
	}
	for source, want := range map[string]string{
		`{{ response.json.jobs }}`:        `response.json.jobs: want a text, a number or a boolean, not a list`,
		`{{ response.json.none }}`:        `not nothing`,
		`{{ rollout.labels.nope }}`:       `rollout.labels.nope: there is no "nope": [?"nope"].orValue(…) is for what may be missing`,
		`{{ rollout.annotations.long }}`:  `a text of more than 64 KiB is not allowed`,
		`{{ rollout.annotations.lines }}`: `the text has more than one line`,
		`{{ images.old.app }}`:            `there is no "app"`,
		`{{ steps.build.outputs.nope }}`:  `there is no "nope"`,
	} {
		text, err := newEnv(t).Text(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if _, err := text.RenderLine(context.Background(), NewBudget(), vars(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

// distinct is a text of so many expressions, no two of them the same.
func distinct(count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "{{ %d.12345 }}", i)
	}
	return text.String()
}

func TestAnExpressionThatIsRepeatedIsReadOnce(t *testing.T) {
	e := newEnv(t)
	if _, err := e.Text(strings.Repeat("{{ 1234567890.12345 }}", 2000)); err != nil {
		t.Error(err)
	}
	if _, err := e.URL(`{{ raw(outputs.url) }}`); err != nil {
		t.Error(err)
	}
	if _, err := e.Text(`{{ raw(outputs.url) }}`); err == nil {
		t.Error("raw in a text is no error")
	}
}

func TestURLsEscapeValues(t *testing.T) {
	for source, want := range map[string]string{
		`https://ci/runs/{{ outputs.id }}/jobs`:                        `https://ci/runs/17/jobs`,
		`https://ci/{{ rollout.annotations.evil }}/x`:                  `https://ci/a%3Fadmin%3Dtrue%23/x`,
		`https://ci/{{ rollout.annotations.path }}`:                    `https://ci/..%2Fadmin`,
		`https://ci/x?a={{ rollout.annotations.evil }}&b={{ weight }}`: `https://ci/x?a=a%3Fadmin%3Dtrue%23&b=20`,
		`https://ci/x?a={{ outputs.empty }}`:                           `https://ci/x?a=`,
		`https://ci/x?a={{ "é %" }}`:                                   `https://ci/x?a=%C3%A9%20%25`,
		`{{ outputs.url }}/jobs/{{ rollout.annotations.evil }}`:        `https://ci.example.com/runs/17/jobs/a%3Fadmin%3Dtrue%23`,
		`https://ci/{{ raw(rollout.annotations.evil) }}`:               `https://ci/a?admin=true#`,
		`https://ci/{{ raw(weight) }}/{{ raw(response.json.count) }}`:  `https://ci/20/3`,
		`{{ raw(outputs.url) }}`:                                       `https://ci.example.com/runs/17`,
		`http://{{ services.canary }}.{{ rollout.namespace }}.svc/`:    `http://shop-canary.demo.svc/`,
		`/runs/{{ outputs.id }}`:                                       `/runs/17`,
		`https://ci/../a`:                                              `https://ci/../a`,
		`https://ci/.{{ outputs.id }}..`:                               `https://ci/.17..`,
		`https://ci/{{ "%2e%2e" }}/`:                                   `https://ci/%252e%252e/`,
	} {
		text, err := newEnv(t).URL(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := text.RenderLine(context.Background(), NewBudget(), vars(t)); err != nil || got != want {
			t.Errorf("%s: %q, %v", source, got, err)
		}
	}
}

func TestURLsRefuseValuesThatLeadElsewhere(t *testing.T) {
	for source, want := range map[string]string{
		`https://ci/{{ outputs.empty }}/x`:                     `the value is empty`,
		`{{ outputs.empty }}/x`:                                `the value is empty`,
		`https://{{ outputs.empty }}ci/`:                       `the value is empty`,
		`https://ci/{{ rollout.annotations.dots }}/x`:          `a segment ".."`,
		`https://ci/a/{{ rollout.annotations.dots }}?b`:        `a segment ".."`,
		`https://ci/.{{ rollout.annotations.dot }}/x`:          `a segment ".."`,
		`https://ci/{{ rollout.annotations.dot }}`:             `a segment "."`,
		`https://{{ rollout.annotations.host }}.example.com/`:  `the value is no part of a host's name`,
		`https://ci.example.com{{ rollout.annotations.path }}`: `the value is no part of a host's name`,
		`{{ rollout.annotations.lines }}`:                      `a URL has no control characters`,
		`https://ci/{{ raw(rollout.annotations.lines) }}`:      `a URL has no control characters`,
	} {
		text, err := newEnv(t).URL(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := text.RenderLine(context.Background(), NewBudget(), vars(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %s", source, got, err, want)
		}
	}
	for _, source := range []string{`https://ci/{{ "a" + raw(rollout.name) }}`, `https://ci/{{ raw(raw(rollout.name)) }}`} {
		if _, err := newEnv(t).URL(source); err == nil || !strings.Contains(err.Error(), "stands alone") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestJSONKeepsTypes(t *testing.T) {
	source := `{"z": "{{ rollout.labels.team }}", "n": "{{ weight }}", "s": "{{ weight }}%", "big": "{{ response.json.id }}", "l": "{{ response.json.tags }}",
		"o": ["{{ response.json.map }}", "{{ response.json.none }}", "{{ response.json.ratio }}", "<&>"], "literal": [1, 2.50, 12345678901234567890, true, null, {}], "{{ key }}": "x"}`
	want := `{"big":9007199254740993,"l":["x","y"],"literal":[1,2.50,12345678901234567890,true,null,{}],"n":20,"o":[{"a":2,"b":1},null,0.25,"<&>"],"s":"20%","z":"a\"b","{{ key }}":"x"}`
	value, err := newEnv(t).JSON([]byte(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := value.Render(context.Background(), NewBudget(), vars(t), nil); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	for source, want := range map[string]string{
		`{"a": [1, {"b": "{{ rollot }}"}]}`: `a[1].b:  rollot: there is no rollot`,
		`"{{ response }}"`:                  `response is no value of its own`,
		`{"a": `:                            `no valid JSON`,
		strings.Repeat("[", 70) + strings.Repeat("]", 70): `more than 64 lists and objects in one another are not allowed`,
		`"` + strings.Repeat("a", 65<<10) + `"`:           `JSON of more than 64 KiB is not allowed`,
	} {
		if _, err := newEnv(t).JSON([]byte(source), nil); err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, ":  ", ": ")) {
			t.Errorf("%.60s: %v, want %s", source, err, want)
		}
	}
	for source, want := range map[string]string{
		`{"a": "{{ rollout.labels[?\"x\"] }}"}`:   `a: rollout.labels[?"x"]: the value may be missing`,
		`{"a": "{{ {1: 2} }}"}`:                   `the keys of an object are texts, not a number`,
		`{"a": "{{ 1.0 / 0.0 }}"}`:                `JSON has no such number`,
		`{"a": "{{ rollout.annotations.long }}"}`: `a value of more than 64 KiB is not allowed`,
		`{"a": "{{ rollout.annotations }}"}`:      `a value of more than 64 KiB is not allowed`,
	} {
		value, err := newEnv(t).JSON([]byte(source), nil)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := value.Render(context.Background(), NewBudget(), vars(t), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %s", source, got, err, want)
		}
	}
}
