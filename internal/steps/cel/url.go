package cel

import (
	"fmt"
	"net/url"
	"strings"
)

// escape returns a value for its place in a URL, after what stands before it.
func escape(before, value string, raw bool) (string, error) {
	whole := before == ""
	_, authority, absolute := strings.Cut(before, "://")
	query := strings.ContainsAny(before, "?#")
	switch {
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) && (whole || raw):
		return "", fmt.Errorf("a URL has no control characters")
	case raw:
		return value, nil
	case value == "" && !query:
		return "", fmt.Errorf("the value is empty, and would leave a gap in the URL")
	case whole:
		return value, nil
	case absolute && !strings.ContainsAny(authority, "/?#"):
		if strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") != "" {
			return "", fmt.Errorf("the value is no part of a host's name")
		}
		return value, nil
	}
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), nil
}

// checkSegments returns an error for a URL with a segment that a server takes for another
// place: a value may have made it.
func checkSegments(target string) error {
	if end := strings.IndexAny(target, "?#"); end >= 0 {
		target = target[:end]
	}
	for segment := range strings.SplitSeq(target, "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("the URL has a path with a segment %q", segment)
		}
	}
	return nil
}
