package proxy

import (
	"crypto/tls"
	"net/http"
	"testing"
)

// What counts when a request begins to wait is what can be here without being
// read.
func TestBytesOfHeldRequests(t *testing.T) {
	const fields = int64(len("/") + len("app.test"))
	tests := map[string]struct {
		major         int
		length        int64
		header        http.Header
		trailer       http.Header
		tls           *tls.ConnectionState
		bytes, window int64
	}{
		"HTTP/1.1 without a body":         {major: 1},
		"a header":                        {major: 1, header: http.Header{"A": {"bc", "d"}}, bytes: 2*headerField + 5},
		"short":                           {major: 1, length: 100, bytes: 100},
		"long":                            {major: 1, length: 1 << 30, bytes: 4096},
		"chunks":                          {major: 1, length: -1, bytes: 4096},
		"long, with TLS":                  {major: 1, length: 1 << 30, tls: new(tls.ConnectionState), bytes: 20480},
		"short, with TLS":                 {major: 1, length: 100, tls: new(tls.ConnectionState), bytes: 100},
		"HTTP/2 without a body":           {major: 2},
		"HTTP/2":                          {major: 2, length: 1 << 30},
		"HTTP/2, of unknown length":       {major: 2, length: -1},
		"HTTP/2, not to be read":          {major: 2, length: -1, trailer: http.Header{"X-Sum": nil}, bytes: 16384, window: streamWindow},
		"HTTP/2, short, not to be read":   {major: 2, length: 100, trailer: http.Header{"X-Sum": nil}, bytes: 16384, window: 100},
		"HTTP/2 without a body, trailers": {major: 2, trailer: http.Header{"X-Sum": nil}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bytes, window := heldBytes(&http.Request{
				ProtoMajor: tt.major, ContentLength: tt.length, RequestURI: "/", Host: "app.test",
				Header: tt.header, Trailer: tt.trailer, TLS: tt.tls,
			})
			if bytes-fields != tt.bytes || window != tt.window {
				t.Errorf("%d, and %d of the window; want %d and %d", bytes-fields, window, tt.bytes, tt.window)
			}
		})
	}
}
