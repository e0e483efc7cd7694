//go:build !race

package proxy

// The race detector takes many times the memory.

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
)

// inMemory returns the bytes of the live heap and of stacks.
func inMemory() int64 {
	var m runtime.MemStats
	for range 2 { // the second collection empties the pools
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// frame returns a frame of HTTP/2.
func frame(kind, flags byte, stream int, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, byte(stream >> 8), byte(stream)}) + payload
}

// begin2 returns the beginning of an HTTP/2 connection, and so many requests with a body
// that fills the window of its stream, or without a body.
func begin2(requests int, body bool) string {
	const data, headers, settings, end, endOfHeaders = 0, 1, 4, 0x1, 0x4
	all := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(settings, 0, 0, "")
	for i := range requests {
		// GET or POST, / and http by their index in HPACK's static table, and the host as
		// a literal.
		const rest = "\x84\x86\x01\x08app.demo"
		if !body {
			all += frame(headers, endOfHeaders|end, 2*i+1, "\x82"+rest)
			continue
		}
		all += frame(headers, endOfHeaders, 2*i+1, "\x83"+rest)
		for range streamWindow / chunk2 {
			all += frame(data, 0, 2*i+1, strings.Repeat("x", chunk2))
		}
	}
	return all
}

// chunk2 is the largest frame that every server takes.
const chunk2 = 16 << 10

// manyFields returns so many fields of a header, of different names.
func manyFields(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "%x:\r\n", i)
	}
	return all.String()
}

// Waiting requests are charged at least the memory that they take, with the server's
// state for them and for their connections. The clients' memory, for TLS, is counted
// here, too.
func TestHeldRequestsAreChargedWhatTheyTake(t *testing.T) {
	const requests = 500
	certFile, keyFile, roots := writeCertificate(t, t.TempDir(), "app.test")
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert}
	asClient := &tls.Config{RootCAs: roots, ServerName: "app.test", Certificates: []tls.Certificate{own}}
	const get1 = "GET / HTTP/1.1\r\nHost: app.demo\r\n\r\n"
	for name, tt := range map[string]struct {
		each           int // requests per connection
		fallback, over bool
		body           bool
		begin          string
	}{
		"HTTP 1.1":                       {each: 1, begin: get1},
		"HTTP 1.1, handed over":          {each: 1, fallback: true, begin: get1},
		"HTTP 1.1, handed over with TLS": {each: 1, fallback: true, over: true, begin: get1},
		"HTTP 1.1, many fields":          {each: 1, begin: strings.TrimSuffix(get1, "\r\n") + manyFields(1500) + "\r\n"},
		"HTTP 2, many a connection":      {each: 250, begin: begin2(250, false)},
		"HTTP 2, one a connection":       {each: 1, begin: begin2(1, false)},
		"HTTP 2, bodies":                 {each: 250, body: true, begin: begin2(250, true)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *Settings) { s.ConditionWait = 10 * patience })
			w.cold("demo/app")
			address := w.address
			if tt.fallback {
				address = w.serveFallbackTo(FallbackPeers{TLS: config})
			}
			connect := func(address string) net.Conn {
				c, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				if tt.over {
					c = tls.Client(c, asClient)
				}
				return c
			}
			before := inMemory()
			var all []net.Conn
			for range requests / tt.each {
				c := connect(address)
				all = append(all, c)
				if tt.fallback {
					_, _ = io.WriteString(c, envoyHeader(t, "demo/app"))
				}
				if _, err := io.WriteString(c, tt.begin); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "all wait", func() bool { return w.heldFor("demo/app") == requests })
			if tt.body {
				eventually(t, "the bodies are here", func() bool { return (inMemory()-before)/requests > streamWindow })
			}
			taken, charged := (inMemory()-before)/requests, w.roomUsed()/requests
			runtime.KeepAlive(all)
			if taken > charged {
				t.Errorf("a request takes %d bytes, and is charged %d", taken, charged)
			}
		})
	}
}
