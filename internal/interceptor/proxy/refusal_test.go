package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestSmugglingIsRefused(t *testing.T) {
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: app.test\r\n\r\n"
	tests := map[string]string{
		"two lengths":                    "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n",
		"a list of lengths":              "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0, 44\r\n\r\n",
		"a negative length":              "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: -1\r\n\r\n",
		"a signed length":                "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: +0\r\n\r\n",
		"a length in base 16":            "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0x0\r\n\r\n",
		"an unknown encoding":            "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"chunked twice":                  "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"identity, chunked":              "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
		"a space before the colon":       "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length : 0\r\n\r\n",
		"a vertical tab in the encoding": "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: \vchunked\r\n\r\n",
		"a header with a NUL":            "GET / HTTP/1.1\r\nHost: app.test\r\nX: a\x00b\r\n\r\n",
		"two hosts":                      "GET / HTTP/1.1\r\nHost: app.test\r\nHost: other.test\r\n\r\n",
		"no host":                        "GET / HTTP/1.1\r\n\r\n",
		"a fragment":                     "GET /a#b HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n",
		"a bare CR":                      "GET / HTTP/1.1\r\nHost: app.test\r\nX: a\rY: b\r\n\r\n",
		"a chunk size that is none":      "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
		"a chunk size beyond reason":     "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na\r\n0\r\n\r\n",
		"a chunk longer than it says":    "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
		"chunked in HTTP/1.0 as well as": "POST / HTTP/1.0\r\nHost: app.test\r\nTransfer-Encoding: chunked, identity\r\nContent-Length: z\r\n\r\n",
	}
	for name, request := range tests {
		t.Run(name, func(t *testing.T) {
			var smuggledIn atomic.Bool
			w := newWorld(t)
			w.service("stable", "", w.app(func(_ http.ResponseWriter, r *http.Request) {
				smuggledIn.CompareAndSwap(false, r.URL.Path == "/smuggled")
			}))
			w.object("")
			w.commit()
			c := dial(t, w.address)
			c.send(request + smuggled)
			if res := c.header(http.MethodPost); res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusNotImplemented {
				t.Errorf("%s, want 400 or 501", res.Status)
			}
			for {
				if _, err := c.reader.ReadByte(); err != nil {
					break
				}
			}
			if smuggledIn.Load() {
				t.Error("the second request went through")
			}
		})
	}
}

// A request with both a length and chunks is taken by its chunks, and nothing is
// taken from the connection after it.
func TestLengthAndChunksEndTheConnection(t *testing.T) {
	const (
		get    = "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n"
		chunks = "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
		both   = "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	)
	cut := strings.Index(both, "Transfer") // a line is a whole
	tests := map[string]struct {
		parts []string // sent one after the other
		ends  bool
	}{
		"both":                    {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, true},
		"both, the other way":     {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\ncontent-LENGTH:6\r\n\r\n0\r\n\r\n"}, true},
		"both, in pieces":         {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\nconte", "nt-leng", "t", "h: 6\r\n\r\n0\r\n\r\n"}, true},
		"chunks alone":            {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, false},
		"a length alone":          {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n"}, false},
		"chunks after a length":   {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n", "", "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, true}, // it may have been sent with the length
		"chunks long after one":   {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n", "", get, "", chunks}, false},
		"both after another":      {[]string{get + both}, true},
		"both after many":         {[]string{get + get + get + both}, true},
		"both after another, cut": {[]string{get + both[:cut], both[cut:]}, true},
		"both after many, cut":    {[]string{get + get + get + both[:cut], both[cut : cut+1], both[cut+1:]}, true},
		"both in HTTP/1.0's eyes": {[]string{"POST / HTTP/1.0\r\nHost: app.test\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.service("stable", "", w.app(named("ok")))
			w.object("")
			w.commit()
			c := dial(t, w.address)
			for _, part := range tt.parts {
				if part == "" { // an answer is to come first
					c.answer(http.MethodPost)
				}
				c.send(part)
				if before, _, ok := strings.Cut(part, "POST"); ok {
					for range strings.Count(before, get) {
						c.answer(http.MethodGet)
					}
				}
			}
			res, body := c.answer(http.MethodPost)
			if res.StatusCode != http.StatusOK || body != "ok" {
				t.Fatalf("%s %q", res.Status, body)
			}
			if res.Close != tt.ends {
				t.Errorf("the connection ends: %v, want %v", res.Close, tt.ends)
			}
			if tt.ends && !c.closed() {
				t.Error("the connection is open still")
			}
		})
	}
}

func TestOversizedHeadersAreRefused(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxHeaderBytes = 8 << 10 })
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			w.Header().Set("X-Large", strings.Repeat("a", 64<<10))
		}
	}))
	w.object("")
	w.commit()
	for name, request := range map[string]string{
		"one header":   "GET / HTTP/1.1\r\nHost: app.test\r\nX: " + strings.Repeat("a", 20<<10) + "\r\n\r\n",
		"many headers": "GET / HTTP/1.1\r\nHost: app.test\r\n" + strings.Repeat("X: a\r\n", 4<<10) + "\r\n",
		"the target":   "GET /" + strings.Repeat("a", 20<<10) + " HTTP/1.1\r\nHost: app.test\r\n\r\n",
	} {
		c := dial(t, w.address)
		c.send(request)
		if res := c.header(http.MethodGet); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %s, want 431", name, res.Status)
		}
	}
	r := w.request(http.MethodGet, "/", nil)
	r.Header.Set("X", strings.Repeat("a", 20<<10))
	if res, err := h2cClient(t).Do(r); err == nil {
		_ = res.Body.Close()
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("h2c: %s, want 431 or a reset", res.Status)
		}
	}
	if res, _ := w.get("/large"); res.StatusCode != http.StatusBadGateway {
		t.Errorf("a large header of the application: %s, want 502", res.Status)
	}
}

// A target that HTTP/2 can carry and HTTP/1.1 cannot.
func TestTargetWithASpaceIsRefused(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(named("stable")))
	w.object("")
	w.commit()
	r := w.request(http.MethodGet, "/", nil)
	r.URL.Opaque = "/a HTTP/1.1"
	res, err := h2cClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	// The application of this test would say 400 as well.
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "request target") {
		t.Errorf("%s %q (%v), want 400 by the proxy", res.Status, body, err)
	}
}

func TestSlowHeadersEndTheConnection(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.ReadHeader = 300 * time.Millisecond })
	w.commit()
	c := dial(t, w.address)
	c.send("GET / HTTP/1.1\r\nHost: app")
	for {
		if _, err := c.reader.ReadByte(); err != nil {
			break
		}
	}
	if !c.closed() {
		t.Error("the connection is open still")
	}
}
