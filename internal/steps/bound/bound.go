// Package bound bounds what people read.
package bound

import (
	"strings"
	"unicode"
)

// Shorten bounds a text, in bytes: one that is too long ends with "…". The limit is 3 or more.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// Line returns a text on one line, without what cannot be seen: control characters, such as
// those of colours in a log, and changes of the writing direction.
func Line(text string) string {
	seen := strings.Map(func(c rune) rune {
		if c == unicode.ReplacementChar || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, text)
	return strings.Join(strings.Fields(seen), " ")
}
