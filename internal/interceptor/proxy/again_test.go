package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// silent is an application that closes the connection instead of answering: for the
// first requests (times), or always.
type silent struct {
	mu       sync.Mutex
	times    int
	requests []string // as received
}

const always = -1

func (w *world) silent(times int) (app *silent, address string) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	app = &silent{times: times}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go app.serve(c)
		}
	}()
	return app, l.Addr().String()
}

func (s *silent) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	var seen bytes.Buffer
	reader := bufio.NewReader(io.TeeReader(c, &seen))
	for {
		seen.Reset()
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil || !s.answers(seen.String()) {
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsilent"); err != nil {
			return
		}
	}
}

func (s *silent) answers(request string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	if s.times > 0 {
		s.times--
		return false
	}
	return s.times == 0
}

// took returns the requests that came since the last call.
func (s *silent) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.requests
	s.requests = nil
	return taken
}

// Which requests are sent again is tested together with Envoy, in the package envoy.

func TestRequestsThatAreSentAgainStayWithTheirService(t *testing.T) {
	w := newWorld(t)
	app, address := w.silent(always)
	w.service("stable", "", w.app(named("stable")))
	w.service("canary", "", address)
	w.object("stable=1 canary=1")
	w.commit()
	failed := 0
	for range 20 {
		if res, _ := w.get("/"); res.StatusCode == http.StatusBadGateway {
			failed++
		}
	}
	if sent := len(app.took()); failed != 10 || sent != 20 {
		t.Errorf("of 20 requests %d failed, and the canary got %d; want 10, each of them twice", failed, sent)
	}
	if got := value(t, w.proxy, "interceptor_tries_total", "demo", "app", "canary", "unanswered"); got != 20 {
		t.Errorf("%v counted as unanswered, want 20", got)
	}
}

// A body that the client breaks off does not count against the application.
func TestABrokenBodyDoesNotCountAsUnanswered(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	w.object("")
	w.commit()
	c := dial(t, w.address)
	c.send("POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nno length\r\n")
	if res, body := c.answer(http.MethodPost); res.StatusCode != http.StatusBadRequest {
		t.Errorf("%s %q, want 400", res.Status, body)
	}
	if got := value(t, w.proxy, "interceptor_tries_total", "demo", "app", "stable", "unanswered"); got != 0 {
		t.Errorf("%v counted as unanswered, want none", got)
	}
}

func TestRequestsAreSentAgainToAnotherEndpoint(t *testing.T) {
	w := newWorld(t)
	app, address := w.silent(always)
	w.service("stable", "", address, w.app(named("stable")))
	w.object("")
	w.commit()
	for range 50 {
		if res, body := w.get("/"); body != "stable" {
			t.Fatalf("%s %q, want the answer of the endpoint that answers", res.Status, body)
		}
	}
	if len(app.took()) == 0 {
		t.Error("the one that does not answer was not asked")
	}
}

// An empty body keeps Go's transport from sending a request again by itself. The
// application sees no trace of that body.
func TestRequestsWithoutABodyAreSentAsTheyAre(t *testing.T) {
	w := newWorld(t)
	app, address := w.silent(0)
	w.service("stable", "", address)
	w.object("")
	w.commit()
	for _, tt := range []struct{ method, header, want string }{
		{http.MethodGet, "", ""},
		{http.MethodHead, "", ""},
		{http.MethodOptions, "", ""},
		{http.MethodTrace, "", ""},
		{http.MethodDelete, "", ""},
		{http.MethodPost, "", "Content-Length: 0"},
		{http.MethodGet, "Idempotency-Key", "idempotency-key: 1"},
		{http.MethodPost, "X-Idempotency-Key", "Content-Length: 0, x-idempotency-key: 1"},
	} {
		t.Run(tt.method+tt.header, func(t *testing.T) {
			for range 2 { // on a new connection and on a kept one
				r := w.request(tt.method, "/", nil)
				r.Header = http.Header{"User-Agent": nil, "X-Request-Id": {"mine"}}
				if tt.header != "" {
					r.Header[tt.header] = []string{"1"}
				}
				w.do(r)
				taken := app.took()
				if len(taken) != 1 {
					t.Fatalf("the application got %d requests", len(taken))
				}
				head, rest, _ := strings.Cut(taken[0], "\r\n\r\n")
				var got []string
				for _, line := range strings.Split(head, "\r\n")[1:] {
					if name, _, _ := strings.Cut(line, ":"); name != "Host" && name != "X-Request-Id" && !strings.HasPrefix(name, "X-Forwarded-") {
						got = append(got, line)
					}
				}
				if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" || rest != "" {
					t.Errorf("it got the header (-want +got):\n%s and behind it %q", diff, rest)
				}
			}
		})
	}
}
