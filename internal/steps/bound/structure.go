package bound

import "iter"

// Structure yields the braces, brackets, commas and colons of a JSON text, without those in
// its strings. They tell the depth and the size of a value before it is decoded.
func Structure(text []byte) iter.Seq[byte] {
	return func(yield func(byte) bool) {
		inText, escaped := false, false
		for _, c := range text {
			switch {
			case escaped:
				escaped = false
			case inText && c == '\\':
				escaped = true
			case c == '"':
				inText = !inText
			case inText:
			case c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':':
				if !yield(c) {
					return
				}
			}
		}
	}
}
