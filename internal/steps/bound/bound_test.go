package bound

import "testing"

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{"": "", "123456": "123456", "1234567": "123…", "12é4567": "12…"} {
		if got := Shorten(text, 6); got != want {
			t.Errorf("Shorten(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{" a\r\n\tb\u2028c ", "a b c"},
		{"\x1b[31mred\x1b[0m\x00\x7f", "[31mred [0m"},
		{"a\u202eb\u200bc", "a b c"},
		{"\xffä\ufffd日", "ä 日"},
	} {
		if got := Line(tc.text); got != tc.want {
			t.Errorf("Line(%q) = %q, want %q", tc.text, got, tc.want)
		}
	}
}
