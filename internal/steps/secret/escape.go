package secret

import (
	"html"
	"strconv"
	"strings"
)

const (
	// maxEscapes is how often in one another a secret may be escaped: a URL in JSON in JSON.
	maxEscapes = 3
	// maxEscape bounds the bytes that stand for one when they are escaped, as in \u0000, and
	// maxEntity those of an entity of HTML.
	maxEscape = 8
	maxEntity = 10
)

// unescape returns a text without one layer of the escapes of JSON, Go, URLs and HTML, and
// where in the whole text each of its bytes comes from, as origin reads it. from says that of
// the text itself.
func unescape(text string, from []int) (plain string, plainFrom []int) {
	if !strings.ContainsAny(text, `\%&`) {
		return text, from
	}
	out := make([]byte, 0, len(text))
	plainFrom = make([]int, 0, len(text)+1)
	for i := 0; i < len(text); {
		length, meant := escapeAt(text[i:])
		if length == 0 {
			length, meant = 1, text[i:i+1]
		}
		for range len(meant) {
			plainFrom = append(plainFrom, origin(from, i))
		}
		out = append(out, meant...)
		i += length
	}
	return string(out), append(plainFrom, origin(from, len(text)))
}

// origin returns where in the whole text a byte comes from; nil is from where it is.
func origin(from []int, i int) int {
	if from == nil {
		return i
	}
	return from[i]
}

// escapeAt returns the length of the escape with which a text begins, and what it means; 0 for
// none.
func escapeAt(text string) (length int, meant string) {
	if len(text) < 2 {
		return 0, ""
	}
	switch next := text[1]; text[0] {
	case '\\':
		if c, wide, rest, err := strconv.UnquoteChar(text[:min(len(text), maxEntity)], 0); err == nil {
			if meant = string(c); !wide {
				meant = string([]byte{byte(c)})
			}
			return min(len(text), maxEntity) - len(rest), meant
		}
		if strings.IndexByte("\"'/", next) >= 0 {
			return 2, text[1:2]
		}
	case '%':
		if len(text) >= 3 {
			if c, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
				return 3, string([]byte{byte(c)})
			}
		}
	case '&':
		if end := strings.IndexByte(text[:min(len(text), maxEntity)], ';'); end > 0 {
			if meant = html.UnescapeString(text[:end+1]); meant != text[:end+1] {
				return end + 1, meant
			}
		}
	}
	return 0, ""
}
