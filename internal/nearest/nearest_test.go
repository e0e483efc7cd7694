package nearest

import "testing"

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
