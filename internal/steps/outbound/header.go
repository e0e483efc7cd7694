package outbound

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// maxHeader bounds the header of a request, in bytes.
const maxHeader = 32 << 10

// reserved are the header fields that belong to the connection (hop-by-hop), or say where a
// request goes or ends.
var reserved = map[string]bool{
	"Connection": true, "Content-Length": true, "Expect": true, "Host": true, "Http2-Settings": true, "Keep-Alive": true,
	"Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true,
}

// token is what the name of a header is (RFC 9110).
var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// CheckHeaderName returns an error if a request may not have a header field of this name.
func CheckHeaderName(name string) error {
	switch {
	case !token.MatchString(name):
		return fmt.Errorf("%q is no name of a header: want letters, digits and -", name)
	case reserved[http.CanonicalHeaderKey(name)]:
		return fmt.Errorf("the header %s is not for a step to set: it is the connection's", name)
	}
	return nil
}

// checkHeader returns an error if a request may not have this header. The error does not hold
// the values, which may be secrets.
func checkHeader(header http.Header) error {
	size := 0
	for name, values := range header {
		if err := CheckHeaderName(name); err != nil {
			return err
		}
		for _, value := range values {
			size += len(name) + len(value) + 4
			if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				return fmt.Errorf("header %s: the value has a control character, such as the end of a line: a header has none", name)
			}
		}
	}
	if size > maxHeader {
		return fmt.Errorf("the header has %d bytes: want %d at most", size, maxHeader)
	}
	return nil
}

// travelling are the header fields that are kept when a request is redirected to another
// origin. All others may be credentials.
var travelling = []string{"Accept", "Accept-Language", "Content-Type", "Idempotency-Key", "User-Agent"}

func withoutCredentials(header http.Header) http.Header {
	kept := http.Header{}
	for _, name := range travelling {
		if values := header.Values(name); len(values) > 0 {
			kept[name] = values
		}
	}
	return kept
}
