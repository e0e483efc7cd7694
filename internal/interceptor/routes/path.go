package routes

import (
	"fmt"
	"strings"
)

// anyPath is the prefix of every path.
const anyPath = "/"

// maxPrefixLength bounds a path prefix, in bytes.
const maxPrefixLength = 2048

// PathOf returns the path of an HTTP/1 request target or HTTP/2 :path in the form in
// which routes compare it: as it was sent, without query, and without scheme and
// authority if it has them. It is "/" for a target of scheme and authority alone, and
// "" for a target without a path ("*", or the authority of a CONNECT).
func PathOf(target string) string {
	target, _, _ = strings.Cut(target, "?")
	if strings.HasPrefix(target, "/") {
		return target
	}
	_, rest, absolute := strings.Cut(target, "://")
	if !absolute {
		return ""
	}
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		return rest[slash:]
	}
	return "/"
}

// pathPrefix returns an entry of spec.pathPrefixes in the form that paths are compared
// with: "/", or segments each with a slash before it and none at the end.
func pathPrefix(prefix string) (string, error) {
	clean := prefix
	if !strings.HasPrefix(clean, "/") {
		clean = "/" + clean
	}
	clean = strings.TrimRight(clean, "/")
	if clean == "" {
		return anyPath, nil
	}
	if len(clean) > maxPrefixLength {
		return "", fmt.Errorf("a path prefix is %d characters long, above %d", len(clean), maxPrefixLength)
	}
	for i := 0; i < len(clean); i++ {
		switch c := clean[i]; {
		case c == '?' || c == '#':
			return "", fmt.Errorf("%q has a %q: a prefix is of the path alone, without query and fragment", prefix, string(c))
		case c == '*':
			return "", fmt.Errorf("%q has a star: a prefix needs none, /foo is for /foo and everything below it", prefix)
		case c == '%':
			if i+2 >= len(clean) || !isHex(clean[i+1]) || !isHex(clean[i+2]) {
				return "", fmt.Errorf("%q has a %% that is not followed by two hexadecimal digits", prefix)
			}
		case c <= ' ' || c > '~':
			return "", fmt.Errorf("%q has the character %q, which in a path is percent-encoded: write it as it is sent", prefix, string(c))
		}
	}
	for segment := range strings.SplitSeq(clean[1:], "/") {
		if segment == "." || segment == ".." {
			return "", fmt.Errorf("%q has the segment %q, which clients resolve before they send a path", prefix, segment)
		}
	}
	return clean, nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
