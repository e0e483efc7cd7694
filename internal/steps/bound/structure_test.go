package bound

import (
	"slices"
	"testing"
)

func TestStructure(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"1":                          "",
		`{"a": [1, {"b": null}]}`:    "{:[,{:}]}",
		`{"a{,": "}]", "\"[": "\\"}`: "{:,:}",
		`["[`:                        "[",
	} {
		if got := string(slices.Collect(Structure([]byte(text)))); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
