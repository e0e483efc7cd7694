package proxy

import (
	"net/http"
	"testing"
)

// The charge of a waiting request is known when it begins to wait.
func TestBytesOfHeldRequests(t *testing.T) {
	const least = heldRequest + int64(len("/")+len("app.test"))
	tests := map[string]struct {
		major   int
		length  int64
		header  http.Header
		overTLS bool
		bytes   int64
	}{
		"HTTP/1.1 without a body":   {major: 1},
		"a header":                  {major: 1, header: http.Header{"A": {"bc", "d"}}, bytes: 2*headerField + 5},
		"short":                     {major: 1, length: 100, bytes: 100},
		"short, not to be read":     {major: 1, length: 100, header: http.Header{"Expect": {"100-continue"}}, bytes: headerField + 18},
		"long":                      {major: 1, length: 1 << 30},
		"chunks":                    {major: 1, length: -1},
		"TLS":                       {major: 1, overTLS: true, bytes: heldTLS},
		"HTTP/2 without a body":     {major: 2},
		"HTTP/2":                    {major: 2, length: 1, bytes: 64 << 10},
		"HTTP/2, of unknown length": {major: 2, length: -1, overTLS: true, bytes: 64 << 10},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := heldBytes(&http.Request{
				ProtoMajor: tt.major, ContentLength: tt.length, RequestURI: "/", Host: "app.test", Header: tt.header,
			}, tt.overTLS)
			if got-least != tt.bytes {
				t.Errorf("%d bytes more than the least, want %d", got-least, tt.bytes)
			}
		})
	}
}
