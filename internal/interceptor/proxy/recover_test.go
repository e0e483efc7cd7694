package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// logged is a log at level info that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// breaking panics when it is written to.
type breaking struct{ http.ResponseWriter }

func (breaking) Write([]byte) (int, error) { panic("broken") }

func TestAPanicIsToldAndAnswered(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(named("ok")))
	w.object("")
	w.commit()
	var log logged
	w.proxy.log = log.logger()
	request := func() *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = "app.test"
		return r
	}

	// Before any of the answer is sent, as with an error in the choice of a backend.
	table := w.proxy.table.Swap(nil)
	recorder := httptest.NewRecorder()
	w.proxy.ServeHTTP(recorder, request())
	w.proxy.table.Store(table)
	if res := recorder.Result(); res.StatusCode != http.StatusInternalServerError || !strings.Contains(recorder.Body.String(), "the interceptor failed") {
		t.Errorf("%s %q, want 500", res.Status, recorder.Body)
	}
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "stack=") || !strings.Contains(text, "recover_test.go") {
		t.Errorf("logged %q, want an error with the stack", text)
	}

	// Once the answer has begun, it can only be cut off.
	func() {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("it ended with %v, want http.ErrAbortHandler", err)
			}
		}()
		w.proxy.ServeHTTP(breaking{httptest.NewRecorder()}, request())
	}()
	if got := value(t, w.proxy, "interceptor_panics_total"); got != 2 {
		t.Errorf("%v panics counted, want 2", got)
	}
	if got := value(t, w.proxy, "interceptor_requests_in_flight", "demo", "app", "stable"); got != 0 {
		t.Errorf("%v in flight", got)
	}

	// An application that closes the connection without an answer is no panic of the
	// interceptor.
	before := log.String()
	w.service("stable", "", w.app(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	w.commit()
	w.get("/")
	if got := log.String(); got != before || value(t, w.proxy, "interceptor_panics_total") != 2 {
		t.Errorf("logged %q", strings.TrimPrefix(got, before))
	}
}

// failing is a listener whose first Accept fails.
type failing struct {
	net.Listener
	failed bool
}

func (l *failing) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestWhatTheServerLogs(t *testing.T) {
	var log logged
	p := New(DefaultSettings(), log.logger())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.start.end() // do not wait for a table
	s := NewServer(p)
	served := make(chan error, 1)
	go func() { served <- s.Serve(&failing{Listener: l}) }()
	c := dial(t, l.Addr().String())
	c.send("GET / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n")
	if res, _ := c.answer(http.MethodGet); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s", res.Status)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, syscall.EMFILE.Error()) {
		t.Errorf("logged %q, want a warning that there are too many open files", text)
	}
	before := log.String()
	s.plain.ErrorLog.Printf("http: TLS handshake error from 203.0.113.7:1: EOF")
	s.plain.ErrorLog.Printf("http: URL query contains semicolon, which is no longer a supported separator")
	if got := log.String(); got != before {
		t.Errorf("logged %q, which is noise", strings.TrimPrefix(got, before))
	}
	s.plain.ErrorLog.Printf("http: panic serving %v: %v\n%s", l.Addr(), "broken", "goroutine 1")
	if got := log.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "goroutine 1") {
		t.Errorf("a panic is logged as %q", strings.TrimPrefix(got, before))
	}
	if err := errors.Join(s.Shutdown(t.Context()), <-served); err != nil {
		t.Error(err)
	}
}

// says returns the address of an application that answers each connection with these
// bytes.
func says(t *testing.T, answer string) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, answer)
		_, _ = io.Copy(io.Discard, c) // until the proxy closes the connection
	})
}

func TestStatusesOutOfRange(t *testing.T) {
	for status, want := range map[string]int{
		"099": http.StatusBadGateway, "000": http.StatusBadGateway, "200": 200, "599": 599, "999": 999,
	} {
		w := newWorld(t)
		w.service("stable", "", says(t, fmt.Sprintf("HTTP/1.1 %s Odd\r\nContent-Length: 2\r\n\r\nok", status)))
		w.object("")
		w.commit()
		res, body := w.get("/")
		if res.StatusCode != want || want == http.StatusBadGateway && !strings.Contains(body, "expected one from 200 to 999") {
			t.Errorf("status %s of the application: %s %q, want %d", status, res.Status, body, want)
		}
		if got := value(t, w.proxy, "interceptor_panics_total"); got != 0 {
			t.Errorf("status %s: %v panics", status, got)
		}
	}
}
