package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// server is a backend that counts what arrives.
type server struct {
	*httptest.Server
	requests, connections atomic.Int64
}

func serve(t *testing.T, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *server) target() string { return s.Listener.Addr().String() }

func blue(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Pod", "pod-1")
	_, _ = fmt.Fprint(w, `"blue"`)
}

// run sends until n requests are answered, and returns all answers.
func run(t *testing.T, o Options, n int) []Answer {
	t.Helper()
	l, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := l.Await(ctx, 0, n); err != nil {
		t.Fatal(err)
	}
	return l.Stop()
}

// TestEveryRequestIsInTheBooks compares the requests in the books with those that
// have arrived.
func TestEveryRequestIsInTheBooks(t *testing.T) {
	for name, o := range map[string]Options{
		"one connection":             {},
		"several":                    {Connections: 4},
		"in turn":                    {Connections: 4, InTurn: true},
		"paced":                      {Connections: 4, Rate: 1000},
		"a connection each":          {Connections: 4, NewConnections: true},
		"a connection each, in turn": {InTurn: true, NewConnections: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, blue)
			o.Target = s.target()
			got := run(t, o, 200)
			if int64(len(got)) != s.requests.Load() {
				t.Errorf("%d requests in the books, %d have arrived", len(got), s.requests.Load())
			}
			used := make(map[int]bool)
			for i, a := range got {
				used[a.Connection] = true
				if a.Number != i || a.Failed() || a.Backend != "blue" || a.Pod != "pod-1" || a.Status != 200 || a.Received.Before(a.Sent) {
					t.Fatalf("entry %d is %+v", i, a)
				}
				if o.InTurn && (a.Connection != i%max(1, o.Connections) || i > 0 && a.Sent.Before(got[i-1].Received)) {
					t.Fatalf("request %d was sent on connection %d before %d was answered", i, a.Connection, i-1)
				}
			}
			want := int64(len(used))
			if o.NewConnections {
				want = s.requests.Load()
			}
			if s.connections.Load() != want {
				t.Errorf("%d connections, want %d", s.connections.Load(), want)
			}
		})
	}
}

// TestSend sends as many requests as it is asked for, on all of its connections.
func TestSend(t *testing.T) {
	s := serve(t, blue)
	got, err := Send(t.Context(), Options{Target: s.target(), Connections: 8}, 1001)
	if err != nil || len(got) != 1001 || s.requests.Load() != 1001 || s.connections.Load() != 8 {
		t.Errorf("%d answers (%v), %d requests on %d connections; want 1001 and 8", len(got), err, s.requests.Load(), s.connections.Load())
	}
	for i, a := range got {
		if a.Number != i || a.Failed() || a.Backend != "blue" {
			t.Fatalf("answer %d is %+v", i, a)
		}
	}
	if _, err := Send(t.Context(), Options{Target: s.target()}, 0); err == nil {
		t.Error("no requests at all are sent without an error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := serve(t, func(w http.ResponseWriter, r *http.Request) {
		cancel()
		blue(w, r)
	})
	if got, err := Send(ctx, Options{Target: stopped.target()}, 1000); !errors.Is(err, context.Canceled) || len(got) == 0 || len(got) == 1000 {
		t.Errorf("a context that ends: %d answers, %v", len(got), err)
	}
}

func TestRequest(t *testing.T) {
	var got *http.Request
	var once sync.Once
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { got = r })
		blue(w, r)
	})
	run(t, Options{Target: s.target(), Host: "app.example.com", Path: "/a?b=c", Header: http.Header{"X-Test": {"1"}}}, 1)
	if got.Host != "app.example.com" || got.RequestURI != "/a?b=c" || got.Header.Get("X-Test") != "1" || got.Method != http.MethodGet {
		t.Errorf("sent %s %s to %s with %v", got.Method, got.RequestURI, got.Host, got.Header)
	}
}

// Each failed request is in the books exactly once, and is sent only once.
func TestFailures(t *testing.T) {
	hang := make(chan struct{})
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
		status  int
		by      string // the backend that the failed answer names
	}{
		"failed by a backend": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			blue(w, nil)
		}, `status 500: "blue"`, 500, "blue"},
		"refused by a proxy": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no backend", http.StatusServiceUnavailable)
		}, "status 503: no backend", 503, ""},
		"not a colour":             {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") }, "the answer is no colour", 200, ""},
		"empty":                    {func(http.ResponseWriter, *http.Request) {}, "the answer is no colour", 200, ""},
		"closed without an answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "waiting for the answer: the connection was closed", 0, ""},
		"closed within the answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			blue(w, nil)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "reading the answer, of status 200: the connection was closed", 0, ""},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, "i/o timeout", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tc.handler)
			timeout := time.Minute
			if name == "no answer" {
				timeout = 200 * time.Millisecond
			}
			got := run(t, Options{Target: s.target(), Connections: 2, Timeout: timeout}, 6)
			if int64(len(got)) != s.requests.Load() {
				t.Errorf("%d requests in the books, %d have arrived", len(got), s.requests.Load())
			}
			counts := Count(got)
			if len(counts.Failed) != len(got) || len(counts.Backends) != 0 {
				t.Fatalf("%d of %d requests failed; the others went to %v", len(counts.Failed), len(got), counts.Backends)
			}
			for _, a := range counts.Failed {
				requireError(t, fmt.Errorf("%s", a.Problem), tc.want)
				if a.Status != tc.status || a.Backend != "" {
					t.Errorf("status %d of backend %q, want %d of none", a.Status, a.Backend, tc.status)
				}
				if a.FailedBackend != tc.by {
					t.Errorf("failed by backend %q, want %q", a.FailedBackend, tc.by)
				}
			}
		})
	}
	close(hang)
}

func TestNothingListens(t *testing.T) {
	s := serve(t, blue)
	s.Close()
	got := run(t, Options{Target: s.target(), Rate: 200}, 3)
	for _, a := range got {
		requireError(t, fmt.Errorf("%s", a.Problem), "connection refused")
	}
}

// TestClosedWhileIdle: it is no failure that a server closes an idle connection.
func TestClosedWhileIdle(t *testing.T) {
	s := serve(t, blue)
	o, err := Options{Target: s.target()}.complete()
	if err != nil {
		t.Fatal(err)
	}
	c := &connection{options: &o}
	defer c.close()
	for i := range 3 {
		if a := c.exchange(); a.Failed() {
			t.Fatalf("request %d: %s", i, a.Problem)
		}
		s.CloseClientConnections()
		for deadline := time.Now().Add(time.Minute); quiet(c.conn); {
			if time.Now().After(deadline) {
				t.Fatal("the connection stays open")
			}
		}
	}
	if s.connections.Load() != 3 {
		t.Errorf("%d connections, want 3", s.connections.Load())
	}
}

func TestSinceMark(t *testing.T) {
	var yellow atomic.Bool
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if yellow.Load() {
			_, _ = fmt.Fprint(w, `"yellow"`)
			return
		}
		blue(w, r)
	})
	l, err := Start(Options{Target: s.target(), Rate: 500})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	if _, err := l.Await(t.Context(), 0, 10); err != nil {
		t.Fatal(err)
	}
	yellow.Store(true)
	mark := l.Mark()
	after, err := l.Await(t.Context(), mark, 10)
	if err != nil {
		t.Fatal(err)
	}
	if counts := Count(after); counts.Backends["yellow"] != len(after) || after[0].Number != int(mark) {
		t.Errorf("after the mark %d, from request %d on: %v", mark, after[0].Number, counts.Backends)
	}
	all := Count(l.Stop())
	if all.Requests != all.Backends["blue"]+all.Backends["yellow"] || all.Backends["blue"] < 10 {
		t.Errorf("all in all: %+v", all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Await(ctx, 0, all.Requests+1); err == nil {
		t.Error("waiting for more than there will ever be has no error")
	}
}

// TestPace: requests that were not sent in time are not made up for.
func TestPace(t *testing.T) {
	p := newPace(10)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var got []time.Duration
	for _, now := range []time.Duration{0, 0, 0, 250 * time.Millisecond, time.Second, time.Second} {
		got = append(got, p.due(start.Add(now)).Sub(start))
	}
	want := []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, time.Second, 1100 * time.Millisecond}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
}

func TestCount(t *testing.T) {
	now := time.Now()
	c := Count([]Answer{
		{Backend: "blue", Sent: now, Received: now.Add(time.Second)},
		{Backend: "blue", Sent: now, Received: now},
		{Backend: "yellow", Sent: now, Received: now},
		{Problem: "gone", Sent: now, Received: now},
	})
	if c.Requests != 4 || len(c.Failed) != 1 || c.Slowest != time.Second || c.Share("blue") < 66 || c.Share("blue") > 67 || c.Share("red") != 0 {
		t.Errorf("counts %+v", c)
	}
	if share := Count(nil).Share("blue"); share != 0 {
		t.Errorf("share of nothing: %v", share)
	}
}

func TestStartRefuses(t *testing.T) {
	for _, o := range []Options{{}, {Target: "host"}, {Target: "host:80", Rate: -1}, {Target: "host:80", Connections: -1}} {
		if l, err := Start(o); err == nil {
			l.Stop()
			t.Errorf("%+v is accepted", o)
		}
	}
}
