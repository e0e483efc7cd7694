package withdrawal

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const timeout = time.Minute

// replica is an interceptor whose contact with the API server a test sets. Its steps are
// the test's.
type replica struct {
	*Withdrawal
	lastSeen  time.Time
	others    []netip.Addr
	drains    bool
	withdrawn int // Withdraw minus Resume
	log       strings.Builder
}

func newReplica() *replica {
	r := &replica{lastSeen: time.Now()}
	r.Withdrawal = New(Options{
		Timeout: timeout, LastSeen: func() time.Time { return r.lastSeen }, Others: func() []netip.Addr { return r.others },
		Serving:  func() bool { return !r.drains },
		Withdraw: func() { r.withdrawn++ }, Resume: func() { r.withdrawn-- },
		Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	r.begun = time.Now().Add(-time.Hour)
	r.setSeenFor(time.Hour)
	return r
}

// setSeenFor has the replica see the API server since some time ago.
func (r *replica) setSeenFor(long time.Duration) {
	since := time.Now().Add(-long)
	r.lastSeen = time.Now()
	r.seenSince.Store(&since)
}

// told returns what others are told.
func (r *replica) told() (code int, body string) {
	recorder := httptest.NewRecorder()
	r.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, Path, nil))
	return recorder.Code, recorder.Body.String()
}

// asks has a replica ask another one, at 127.0.0.1.
func (r *replica) asks(t *testing.T, other http.Handler) {
	t.Helper()
	s := httptest.NewServer(other)
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	r.others, r.options.Port = []netip.Addr{at.Addr()}, at.Port()
}

// One replica loses the API server, then the other, and they see it again in turn. There
// is always one that serves, and it is one that sees the API server if there is one.
func TestLostInTurn(t *testing.T) {
	a, b := newReplica(), newReplica()
	a.asks(t, b)
	b.asks(t, a)
	step := func(when string, wantA, wantB bool) {
		t.Helper()
		a.step(t.Context())
		b.step(t.Context())
		for name, is := range map[string]struct {
			*replica
			want bool
		}{"a": {a, wantA}, "b": {b, wantB}} {
			_, body := is.told()
			n := map[bool]int{true: 1}[is.want]
			if is.withdrawn != n || strings.Contains(body, "unavailable") != (is.want || is.drains) || is.gauge(t, "interceptor_withdrawn") != float64(n) {
				t.Fatalf("%s: %s: withdrawn %d times, others are told %s; want withdrawn: %v", when, name, is.withdrawn, body, is.want)
			}
		}
	}
	lost := time.Now().Add(-2 * timeout)
	step("both see it", false, false)
	a.lastSeen = time.Now().Add(-timeout / 2)
	step("a has not heard of it for a while", false, false)
	a.lastSeen = lost
	step("a has lost it", true, false)
	step("a has lost it", true, false)
	b.lastSeen = lost
	step("b has lost it, too", true, false)
	a.lastSeen = time.Now()
	step("a sees it again", true, false)
	a.setSeenFor(2 * a.period)
	step("a has seen it for two periods, and is better than b", false, false)
	a.setSeenFor(timeout / 4)
	step("a has seen it for a quarter of the timeout", false, true)
	b.lastSeen = time.Now()
	step("b sees it again", false, true)
	b.setSeenFor(timeout)
	step("b has seen it for the timeout", false, false)
	a.lastSeen, b.lastSeen = lost, lost
	step("both have lost it", false, false)
	step("both have lost it", false, false)
	if n := strings.Count(a.log.String(), "no other interceptor sees it"); n != 1 {
		t.Errorf("logged %d times that nobody sees it, want once:\n%s", n, &a.log)
	}
	b.lastSeen = time.Now()
	step("b sees it", false, false)
	b.setSeenFor(timeout / 4)
	step("b has seen it for a quarter of the timeout", true, false)
	b.drains = true
	step("b drains", false, false)
	if !strings.Contains(a.log.String(), "no other interceptor serves") {
		t.Errorf("the log does not say why it serves again:\n%s", &a.log)
	}
}

// gauge returns the value of a metric without labels.
func (r *replica) gauge(t *testing.T, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// What is no answer of an interceptor that sees the API server does not make one withdraw.
func TestOnlyAnInterceptorIsBelieved(t *testing.T) {
	release := make(chan struct{})
	for name, other := range map[string]http.HandlerFunc{
		"an earlier release": http.NotFound,
		"another program":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>current</html>") },
		"an error":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); fmt.Fprint(w, `{"state":"current"}`) },
		"a state of a later release": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"state":"splendid"}`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == Path {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
				return
			}
			fmt.Fprint(w, `{"state":"current"}`)
		},
		"an answer without end": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(" ", maxAnswerBytes)+`{"state":"current"}`)
		},
		"no answer": func(http.ResponseWriter, *http.Request) { <-release },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplica()
			r.asks(t, other)
			if name == "no answer" {
				t.Cleanup(func() { close(release) })
				r.client.Timeout = 50 * time.Millisecond
			}
			r.lastSeen = time.Time{}
			r.step(t.Context())
			if r.withdrawn != 0 {
				t.Error("it has withdrawn")
			}
		})
	}
	t.Run("an interceptor", func(t *testing.T) {
		r, other := newReplica(), newReplica()
		r.asks(t, other)
		// Nobody listens at the first two addresses.
		r.others = slices.Insert(r.others, 0, netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("::2"))
		r.lastSeen = time.Time{}
		r.step(t.Context())
		if r.withdrawn != 1 {
			t.Error("it has not withdrawn")
		}
	})
}

// Interceptors are asked over IPv6, too, and never more than maxAsked at a time.
func TestWhoIsAsked(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6: ", err)
	}
	var asked atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"state":"current"}`)
	}))
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	r := newReplica()
	r.others = slices.Repeat([]netip.Addr{netip.IPv6Loopback()}, 3*maxAsked)
	r.options.Port = netip.MustParseAddrPort(l.Addr().String()).Port()
	r.lastSeen = time.Time{}
	r.step(t.Context())
	if n := asked.Load(); r.withdrawn != 1 || n != maxAsked {
		t.Errorf("withdrawn %d times, asked %d, want 1 and %d", r.withdrawn, n, maxAsked)
	}
}

// The answer says when the API server was last seen.
func TestAnswer(t *testing.T) {
	r := newReplica()
	for want, lastSeen := range map[string]time.Time{"current": time.Now(), "stale": time.Now().Add(-timeout)} {
		r.lastSeen = lastSeen
		if code, body := r.told(); code != http.StatusOK || !strings.Contains(body, want) || !strings.Contains(body, lastSeen.Format("15:04:05")) {
			t.Errorf("%d %s, want %s, seen %v", code, body, want, lastSeen)
		}
		if l := r.Limits()[0]; l.Max != timeout.Seconds() || (l.Used >= l.Max) != (want == "stale") {
			t.Errorf("%s: %v of %v in use", want, l.Used, l.Max)
		}
	}
	r.drains = true
	if _, body := r.told(); !strings.Contains(body, "unavailable") {
		t.Errorf("while it drains: %s", body)
	}
}

// With a timeout of 0, Run returns.
func TestOff(t *testing.T) {
	var running sync.WaitGroup
	running.Go(func() { New(Options{}).Run(t.Context()) })
	running.Wait()
}

// Lost tells since when the API server is not seen. An interceptor that never withdraws has
// longer watches.
func TestLost(t *testing.T) {
	r := newReplica()
	for _, tt := range []struct {
		timeout, unseen time.Duration
		want            string
	}{
		{timeout, 0, ""},
		{timeout, timeout / 4, ""},
		{timeout, timeout, "the API server has not been seen since "},
		{0, 10 * time.Minute, ""},
		{0, 12 * time.Minute, "the API server has not been seen since "},
	} {
		r.options.Timeout, r.lastSeen = tt.timeout, time.Now().Add(-tt.unseen)
		if got := r.Lost(); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("with a timeout of %v, seen %v ago: %q; expected %q", tt.timeout, tt.unseen, got, tt.want)
		}
	}
	r.lastSeen = time.Time{}
	if got := r.Lost(); got != "the API server has not answered yet" {
		t.Errorf("never seen: %q", got)
	}
}
