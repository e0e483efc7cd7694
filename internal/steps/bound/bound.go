// Package bound bounds what people read.
package bound

import "strings"

// Shorten bounds a text, in bytes: one that is too long ends with "…". The limit is 3 or more.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}
