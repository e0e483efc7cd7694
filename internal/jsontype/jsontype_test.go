package jsontype

import "testing"

func TestOf(t *testing.T) {
	for raw, want := range map[string]string{
		"{}": "an object", "[1]": "a list", `"a"`: "a string", "true": "a boolean", "false": "a boolean",
		"null": "null", "-1.5": "a number", "": "no valid JSON", "{": "no valid JSON",
	} {
		if got := Of([]byte(raw)); got != want {
			t.Errorf("Of(%q) = %q, want %q", raw, got, want)
		}
	}
}
