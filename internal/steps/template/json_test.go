package template

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestJSONLeavesStayStrings(t *testing.T) {
	for text, want := range map[string]string{
		`{"b": "{{ .rollout.labels.team }}", "a": [1, 2.50, true, null, {"c": "{{ .weight }}"}]}`: `{"b":"a\"b","a":[1,2.50,true,null,{"c":"20"}]}`,
		`"{{ .rollout.annotations.lines }}"`:                                                      `"a\r\nb"`,
		`{"a": "<{{ \"&\" }}>", "{": "}"}`:                                                        `{"a":"<&>","{":"}"}`,
		`{}`:                                                                                      `{}`,
		`12345678901234567890`:                                                                    `12345678901234567890`,
		` [ ] `:                                                                                   `[]`,
		`["{{ .rollout.name }}", "{{ .step.id }}"]`:                                               `["shop","e2e"]`,
		`{"x": "\",\"y\":\"{{ .rollout.labels.team }}"}`:                                          `{"x":"\",\"y\":\"a\"b"}`,
	} {
		parsed, err := ParseJSON(json.RawMessage(text))
		if err != nil {
			t.Errorf("ParseJSON(%s): %v", text, err)
			continue
		}
		if got, err := parsed.Render(scope()); err != nil || string(got) != want {
			t.Errorf("Render(%s) = %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestJSONSaysWhatIsWrong(t *testing.T) {
	big := `"` + strings.Repeat("a", 40<<10) + `{{ trunc 40000 .rollout.annotations.long }}"`
	for text, want := range map[string]string{
		`{"a": ["{{ uper }}"]}`:         `a[0]: line 1: there is no function uper: did you mean upper?`,
		`{"a": {"b c": "{{ .nope }}"}}`: `a["b c"]: line 1: .nope: there is no key "nope": did you mean "none"? (get is for a key that may be missing)`,
		`{"{{ .a }}": 1}`:               `["{{ .a }}"]: a key is not a template`,
		`"{{ .nope }}"`:                 `line 1: .nope: there is no key "nope": did you mean "none"? (get is for a key that may be missing)`,
		`{`:                             `no valid JSON`,
		``:                              `no valid JSON`,
		strings.Repeat("[", 50) + strings.Repeat("]", 50): `more than 32 lists and objects in one another are not allowed`,
		`"` + strings.Repeat("a", 64<<10) + `"`:           `JSON of more than 64 KiB is not allowed`,
		big:                                               `the rendered text has more than 64 KiB`,
		`["{{ .rollout.annotations.long }}", "{{ .rollout.annotations.long }}"]`:                     `the rendered JSON has more than 64 KiB`,
		`["{{ range 50000 }}{{ end }}", "{{ range 50000 }}{{ end }}", "{{ range 50000 }}{{ end }}"]`: `[2]: line 1: it takes more work than is allowed: loop over less, or use shorter texts`,
	} {
		parsed, err := ParseJSON(json.RawMessage(text))
		if err == nil {
			_, err = parsed.Render(scope())
		}
		if err == nil || err.Error() != want {
			t.Errorf("%.80s is the error\n%v, want\n%s", text, err, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{"b": "{{ .rollout.labels.team }}", "a": [1, 2.50, true, null, {"c": "{{ .weight }}"}]}`,
		`"{{ .rollout.annotations.lines }}"`, `["{{ b64dec \"/w==\" }}"]`, `{"a": "\ud800", "a": 1e999}`, `[[[["{{ range 3 }}\"{{ end }}"]]]]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		parsed, err := ParseJSON(raw)
		if err != nil {
			return
		}
		got, err := parsed.Render(scope())
		if err != nil {
			return
		}
		if len(got) > maxText || !json.Valid(got) {
			t.Fatalf("%q renders to %q", raw, got)
		}
		if strings.Contains(string(raw), "{{") || strings.Contains(string(raw), `\u`) {
			return
		}
		// Text without a template stays as it is.
		var before, after any
		if json.Unmarshal(raw, &before) != nil {
			return // a number that is too large for Go
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatal(err)
		}
		one, _ := json.Marshal(before)
		other, _ := json.Marshal(after)
		if string(one) != string(other) {
			t.Errorf("%q renders to %q", raw, got)
		}
	})
}
