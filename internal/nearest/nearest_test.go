package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	known := []string{"httpScaledObjectName", "httpScaledObjects"}
	for word, want := range map[string]string{
		"httpScaledObjectsName": "httpScaledObjectName",
		"HTTPSCALEDOBJECTS":     "httpScaledObjects",
		"httpScaledObject":      "httpScaledObjects",
		"":                      "httpScaledObjects",
	} {
		if got := Word(word, known); got != want {
			t.Errorf("Word(%q) = %q, want %q", word, got, want)
		}
	}
}

// TestWordOfAnyLength: what is beyond the bound does not count.
func TestWordOfAnyLength(t *testing.T) {
	if got := Word(strings.Repeat("b", longest)+strings.Repeat("a", longest), []string{"aaaa", "bbbb"}); got != "bbbb" {
		t.Errorf("Word = %q, want bbbb", got)
	}
}
