package cel

import (
	"context"
	"strings"
	"testing"
)

// TestErrorsShowNoData: an answer may hold a secret, and errors end in Events.
func TestErrorsShowNoData(t *testing.T) {
	given := vars(t)
	const secret = "hunter2"
	given["response"] = map[string]any{"status": 200, "headers": map[string]any{}, "text": secret + "(", "json": map[string]any{
		"s": secret, "list": []any{secret}, "object": map[string]any{secret: secret}, "n": int64(1)}}
	for source, want := range map[string]string{
		`int(response.json.s)`:                                 "int does not work with this value (a text)",
		`timestamp(response.json.s)`:                           "timestamp does not work with this value (a text)",
		`bool(response.json.s)`:                                "bool does not work with this value (a text)",
		`base64.decode(response.text)`:                         "base64.decode does not work with this value (a text)",
		`response.json[response.json.s]`:                       "there is no such key",
		`response.json.list[response.json.s]`:                  "the items of a list have numbers, not names",
		`response.json.list.hunter2`:                           "the items of a list have numbers, not names",
		`response.json.list[7]`:                                "the list has no such item",
		`response.json.s.substring(20)`:                        "substring: the text is shorter",
		`"a".matches(response.text)`:                           "matches: no regular expression: missing closing )",
		`response.json.n + response.json.s`:                    "+ does not work with a number and a text",
		`response.json.s + response.json.list`:                 "+ does not work with a text and a list",
		`response.json.s.x`:                                    `there is no "x"`,
		`response.json.s && true`:                              "&&, ||, ! and ?: work with true and false",
		`response.json.s ? 1 : 2`:                              "&&, ||, ! and ?: work with true and false",
		`response.json.s.all(x, true)`:                         "need a list or an object, not a text",
		`[1, response.json.s].map(x, x > 0)`:                   "> does not work with a text and a number",
		`{response.json.list: 1}`:                              "",
		`[?response.json.s]`:                                   "",
		`[response.json.list].join(",")`:                       "join does not work with a list and a text",
		`response.json.object.map(k, int(k))`:                  "int does not work with this value (a text)",
		`{"a": response.json.object[response.json.s + "x"]}.a`: "there is no such key",
		`optional.none().value()`:                              "there is no value: .orValue(…) says what then",
		`9223372036854775807 + response.json.n`:                "integer overflow",
		`response.json.n / 0`:                                  "division by zero",
		`response.json.s.nope()`:                               "there is no function nope",
	} {
		x, err := newEnv(t).Value(source)
		if err == nil {
			_, err = x.Value(context.Background(), NewBudget(), given)
		}
		if err == nil {
			if want != "" {
				t.Errorf("%s is no error", source)
			}
			continue
		}
		message, _ := strings.CutPrefix(err.Error(), source+": ")
		if strings.Contains(message, secret) && !strings.Contains(source, secret) || !strings.Contains(message, want) {
			t.Errorf("%s: %s, want %s", source, message, want)
		}
	}
}

func TestMissingParts(t *testing.T) {
	x, err := newEnv(t).Value(`response.json.state`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Value(context.Background(), NewBudget(), Vars{}); err == nil || !strings.Contains(err.Error(), "there is no value for one of its names") {
		t.Error(err)
	}
}
