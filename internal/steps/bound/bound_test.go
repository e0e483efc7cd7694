package bound

import "testing"

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{"": "", "123456": "123456", "1234567": "123…", "12é4567": "12…"} {
		if got := Shorten(text, 6); got != want {
			t.Errorf("Shorten(%q) = %q, want %q", text, got, want)
		}
	}
}
