package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
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
	if got := value(t, w.proxy, "interceptor_unanswered_total", "demo", "app", "canary"); got != 20 {
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
	if got := value(t, w.proxy, "interceptor_unanswered_total", "demo", "app", "stable"); got != 0 {
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
				r.Header = http.Header{"User-Agent": nil}
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
					if name, _, _ := strings.Cut(line, ":"); name != "Host" && !strings.HasPrefix(name, "X-Forwarded-") {
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

func TestSecondTriesOfEnvoy(t *testing.T) {
	for _, tt := range []struct {
		again      string
		silent     int
		sent, code int
	}{
		{again: "", silent: 1, sent: 2, code: http.StatusOK}, // Envoy's first try
		{again: "false", silent: 0, sent: 1, code: http.StatusOK},
		{again: "false", silent: 1, sent: 1, code: http.StatusBadGateway},
		{again: "true", silent: 0, sent: 0, code: http.StatusGatewayTimeout},
	} {
		t.Run(fmt.Sprintf("%q, silent %d times", tt.again, tt.silent), func(t *testing.T) {
			w := newWorld(t, func(s *Settings) { s.ResponseHeader = patience })
			app, address := w.silent(tt.silent)
			w.service("stable", "", address)
			w.object("")
			w.commit()
			w.client = w.fromEnvoy(w.serveFallback(), "demo/app", false)
			r := w.request(http.MethodGet, "/", nil)
			if tt.again != "" {
				r.Header[routes.SecondTryHeader] = []string{tt.again}
			}
			res, body := w.do(r)
			taken := app.took()
			if res.StatusCode != tt.code || len(taken) != tt.sent {
				t.Errorf("answered %s %q, and the application got it %d times; want %d and %d times", res.Status, body, len(taken), tt.code, tt.sent)
			}
			for _, request := range taken {
				if strings.Contains(strings.ToLower(request), strings.ToLower(routes.SecondTryHeader)) {
					t.Errorf("the application got %q", request)
				}
			}
		})
	}
}

func TestSecondTriesOfEnvoyGoToTheSameService(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(named("stable")))
	w.service("canary", "", w.app(named("canary")))
	w.service("gone", "")
	ask := func(address, service string, again bool) map[string]int {
		w.client = w.fromEnvoy(address, "demo/app", false, service)
		answers := make(map[string]int)
		for range 20 {
			r := w.request(http.MethodGet, "/", nil)
			if again {
				r.Header[routes.SecondTryHeader] = []string{"false"}
			}
			_, body := w.do(r)
			answers[body]++
		}
		return answers
	}
	w.object("stable=1 canary=1 gone=0")
	w.commit()
	address := w.serveFallback()
	split := map[string]int{"stable": 10, "canary": 10}
	for _, tt := range []struct {
		service string
		again   bool
		want    map[string]int
	}{
		{"canary", true, map[string]int{"canary": 20}},
		{"stable", true, map[string]int{"stable": 20}},
		{"canary", false, split},
		{"gone", true, split},
		{"unknown", true, split},
		{"", true, split},
	} {
		if diff := cmp.Diff(tt.want, ask(address, tt.service, tt.again)); diff != "" {
			t.Errorf("tried before %v at Service %q: answered by (-want +got):\n%s", tt.again, tt.service, diff)
		}
	}
	w.object("stable=1 canary=0 gone=0")
	w.commit()
	if diff := cmp.Diff(map[string]int{"stable": 20}, ask(address, "canary", true)); diff != "" {
		t.Errorf("of a Service whose weight is 0 now: answered by (-want +got):\n%s", diff)
	}
}
