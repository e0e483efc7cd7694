package proxy

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"
)

// When a request begins to wait, it is charged the bytes that can be in memory without
// its body being read.
func TestBytesOfHeldRequests(t *testing.T) {
	const least = heldRequest + int64(len("/")+len("app.test"))
	tests := map[string]struct {
		major         int
		length        int64
		header        http.Header
		trailer       http.Header
		overTLS       bool
		bytes, window int64
	}{
		"HTTP/1.1 without a body":         {major: 1},
		"a header":                        {major: 1, header: http.Header{"A": {"bc", "d"}}, bytes: 2*headerField + 5},
		"short":                           {major: 1, length: 100},
		"long":                            {major: 1, length: 1 << 30},
		"chunks":                          {major: 1, length: -1},
		"long, with TLS":                  {major: 1, length: 1 << 30, overTLS: true, bytes: 16384},
		"short, with TLS":                 {major: 1, length: 100, overTLS: true, bytes: 100},
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
				Header: tt.header, Trailer: tt.trailer,
			}, tt.overTLS)
			if bytes-least != tt.bytes || window != tt.window {
				t.Errorf("%d, and %d of the window; want %d and %d", bytes-least, window, tt.bytes, tt.window)
			}
		})
	}
}

// While a body is not read, one TLS record of it can be in memory, on a client's
// connection and on a kedify-proxy's.
func TestTLSRecordsOfHeldRequests(t *testing.T) {
	for _, fallback := range []bool{true, false} {
		for _, over := range []bool{true, false} {
			t.Run(fmt.Sprint("handed over ", fallback, ", TLS ", over), func(t *testing.T) {
				w := newWorld(t)
				w.cold("demo/app")
				certFile, keyFile, roots := writeCertificate(t, t.TempDir(), "app.test")
				pair, err := tls.LoadX509KeyPair(certFile, keyFile)
				if err != nil {
					t.Fatal(err)
				}
				address, header := w.address, ""
				switch {
				case fallback:
					address, header = w.serveFallbackTo(FallbackPeers{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}}), envoyHeader(t, "demo/app")
				case over:
					address = w.serveTLS(certFile, keyFile)
				}
				c := dial(t, address)
				t.Cleanup(w.proxy.waiting.close) // the body is chunked, so the client's leaving is not noticed
				if over {
					c.conn = tls.Client(c.conn, &tls.Config{RootCAs: roots, ServerName: "app.test"})
				}
				c.send(header + "POST / HTTP/1.1\r\nHost: app.demo\r\nTransfer-Encoding: chunked\r\n\r\n")
				eventually(t, "it waits", func() bool { return w.heldFor("demo/app") == 1 })
				if used := w.roomUsed(); used < heldRequest || used > heldRequest+arrivedTLS+1<<10 || (used >= heldRequest+arrivedTLS) != over {
					t.Errorf("it is charged %d bytes", used)
				}
			})
		}
	}
}
