package routes

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// Header is a header that a request may carry to belong to an object.
type Header struct {
	// Name is in lower case, as HTTP/2 and Envoy have it.
	Name string
	// Value is the whole value, or empty for any value. It may be a secret.
	Value string
}

// String names the header without its value, for messages.
func (h Header) String() string {
	if h.Value == "" {
		return h.Name
	}
	return h.Name + "=..."
}

// connectionHeaders are hop-by-hop headers and those that a proxy keeps apart from the
// other headers, each with the reason why it cannot choose an object. The two proxies
// would not agree on what a request carries.
var connectionHeaders = map[string]string{
	"connection":        "it speaks of one connection and is gone before routing",
	"host":              "hosts are given in spec.hosts",
	"keep-alive":        "it speaks of one connection and is gone before routing",
	"proxy-connection":  "it speaks of one connection and is gone before routing",
	"te":                "it speaks of one connection and is gone before routing",
	"trailer":           "it speaks of one connection and is gone before routing",
	"transfer-encoding": "it speaks of one connection and is gone before routing",
}

// checkHeader returns an entry of spec.headers in the form that requests are compared
// with.
func checkHeader(name, value string) (Header, error) {
	lower := lowerASCII(name)
	if lower == "" {
		return Header{}, fmt.Errorf("a header has no name")
	}
	for i := range len(lower) {
		if !isTokenByte(lower[i]) {
			return Header{}, fmt.Errorf("%q is not a header's name: it may have letters, digits and any of !#$%%&'*+-.^_`|~", name)
		}
	}
	if why, refused := connectionHeaders[lower]; refused {
		return Header{}, fmt.Errorf("header %q cannot choose an object: %s", name, why)
	}
	// Proxies trim the blanks around a value before they compare it.
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return Header{}, fmt.Errorf("the value of header %q has the control character %q, which no request can carry", name, string(c))
		}
	}
	return Header{Name: lower, Value: value}, nil
}

// isTokenByte expects letters in lower case.
func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// wantedHeader is a Header with its name in the form of Go's header maps.
type wantedHeader struct{ key, value string }

func wanted(headers []Header) []wantedHeader {
	if len(headers) == 0 {
		return nil
	}
	all := make([]wantedHeader, len(headers))
	for i, h := range headers {
		all[i] = wantedHeader{textproto.CanonicalMIMEHeaderKey(h.Name), h.Value}
	}
	return all
}

// in tells whether one of the header's values is wanted: a header may be sent
// more than once.
func (w *wantedHeader) in(values []string) bool {
	return len(values) > 0 && (w.value == "" || slices.Contains(values, w.value))
}
