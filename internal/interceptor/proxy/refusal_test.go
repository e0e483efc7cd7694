package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	smuggled  = "GET /smuggled HTTP/1.1\r\nHost: app.test\r\n\r\n"
	plainPost = "POST /plain HTTP/1.1\r\nHost: app.test\r\nContent-Length: 1\r\nConnection: close\r\n\r\na"
)

// smuggling are requests that are refused whatever follows them.
var smuggling = map[string]string{
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

func TestSmugglingIsRefused(t *testing.T) {
	for name, request := range smuggling {
		t.Run(name, func(t *testing.T) {
			app := newCredulousApp(t)
			w := newWorld(t)
			w.service("stable", "", app.address)
			w.object("")
			w.commit()
			for _, fault := range app.judge(t, w.address, request, patience) {
				t.Error(fault)
			}
			// Not every request is refused: a plain one is served.
			c := dial(t, w.address)
			c.send(plainPost)
			if res, _ := c.answer(http.MethodPost); res.StatusCode != http.StatusOK || !c.closed() {
				t.Errorf("a plain request: %s, want 200 and the end of the connection", res.Status)
			}
		})
	}
}

// The judge of TestSmugglingIsRefused finds fault with a proxy that relays what it
// gets, one that does not answer, and one that answers and keeps the connection open or
// serves what follows.
func TestSmugglingIsJudged(t *testing.T) {
	const refused = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
	app := newCredulousApp(t)
	proxies := map[string]func(net.Conn){
		"relays": func(client net.Conn) {
			upstream, err := net.Dial("tcp", app.address)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = upstream.Close() }()
			go func() { _, _ = io.Copy(upstream, client) }()
			_, _ = io.Copy(client, upstream)
		},
		"hangs": func(client net.Conn) { _, _ = io.Copy(io.Discard, client) },
		"hangs after its answer": func(client net.Conn) {
			_, _ = io.WriteString(client, refused)
			_, _ = io.Copy(io.Discard, client)
		},
		"serves what follows": func(client net.Conn) { _, _ = io.WriteString(client, refused+refused) },
	}
	for kind, serve := range proxies {
		address := listen(t, serve)
		for name, request := range smuggling {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				if len(app.judge(t, address, request, 200*time.Millisecond)) == 0 {
					t.Error("no fault found")
				}
			})
		}
	}
}

// credulousApp is an application that refuses nothing, so that a refusal can only be
// the proxy's.
type credulousApp struct {
	address string
	mu      sync.Mutex
	got     strings.Builder
}

func newCredulousApp(t *testing.T) *credulousApp {
	a := &credulousApp{}
	a.address = listen(t, func(conn net.Conn) {
		buffer := make([]byte, 4<<10)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			a.mu.Lock()
			a.got.Write(buffer[:n])
			a.mu.Unlock()
			if got := string(buffer[:n]); !strings.Contains(got, "/plain") && !strings.Contains(got, "/smuggled") {
				continue // an answer to a part of a request would hide what becomes of the rest
			}
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
				return
			}
		}
	})
	return a
}

// listen serves each connection until the test ends, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// judge sends a request with another behind it, and returns what is wrong with the
// refusal. Right is one answer, then the end of the connection, and nothing of the
// second request at the application.
func (a *credulousApp) judge(t *testing.T, address, request string, within time.Duration) (faults []string) {
	t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	c := dial(t, address)
	if err := c.conn.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(c.conn, request+smuggled) }() // the proxy may close the connection before the end
	res, err := http.ReadResponse(c.reader, &http.Request{Method: http.MethodPost})
	switch {
	case err != nil:
		fault("no answer: %v", err)
	case res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusNotImplemented:
		fault("%s, want 400 or 501", res.Status)
	default:
		_, _ = io.Copy(io.Discard, res.Body) // closed() checks how the connection ends
	}
	if !c.closed() {
		fault("the connection is open still, or there is a second answer")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if strings.Contains(a.got.String(), "/smuggled") {
		fault("the second request went through: %q", a.got.String())
	}
	return faults
}

// A request with both Content-Length and chunks is read by its chunks, and the
// connection is closed after the answer.
func TestLengthAndChunksEndTheConnection(t *testing.T) {
	const (
		get    = "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n"
		chunks = "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
		both   = "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	)
	cut := strings.Index(both, "Transfer") // between two lines
	tests := map[string]struct {
		parts []string // sent one after the other
		ends  bool
	}{
		"both":                    {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, true},
		"both, the other way":     {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\ncontent-LENGTH:6\r\n\r\n0\r\n\r\n"}, true},
		"both, in pieces":         {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\nconte", "nt-leng", "t", "h: 6\r\n\r\n0\r\n\r\n"}, true},
		"chunks alone":            {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, false},
		"a length alone":          {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n"}, false},
		"chunks after a length":   {[]string{"POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n", "", "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, true}, // treated as if one request had both
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
				if part == "" { // read an answer first
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
