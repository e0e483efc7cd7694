package outbound

import (
	"fmt"
	"net/http"
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

// CheckHeaderName returns an error if a request may not have a header field of this name.
func CheckHeaderName(name string) error {
	switch {
	case name == "" || strings.IndexFunc(name, func(r rune) bool { return !isToken(r) }) >= 0:
		return fmt.Errorf("%q is no name of a header: want letters, digits and -", name)
	case reserved[http.CanonicalHeaderKey(name)]:
		return fmt.Errorf("the header %s is not for a step to set: it is the connection's", name)
	}
	return nil
}

// isToken tells whether a character may be in the name of a header (RFC 9110).
func isToken(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// CheckHeaderValue returns an error if a header field may not have this value. The error
// does not hold the value, which may be a secret.
func CheckHeaderValue(value string) error {
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("the value has a control character (0x%02x), such as the end of a line: a header has none", c)
		}
	}
	return nil
}

func checkHeader(header http.Header) error {
	size := 0
	for name, values := range header {
		if err := CheckHeaderName(name); err != nil {
			return err
		}
		for _, value := range values {
			size += len(name) + len(value) + 4
			if err := CheckHeaderValue(value); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
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
