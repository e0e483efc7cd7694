package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serving is the caller's side of Serve.
type serving struct {
	commands *json.Encoder
	results  *json.Decoder
}

// serve runs Serve with two applications until the test is over.
func serve(t *testing.T) (s *serving, applications [2]netip.AddrPort) {
	t.Helper()
	in, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	results, out := io.Pipe()
	var served []Application
	for i, answer := range []string{"stable", "canary"} {
		applications[i] = freeAddress(t)
		served = append(served, Application{Address: applications[i], Answer: answer})
	}
	ended := make(chan error, 1)
	go func() {
		err := Serve(in, out, served)
		_ = out.CloseWithError(fmt.Errorf("Serve has ended: %w", errors.Join(err, io.EOF)))
		ended <- err
	}()
	t.Cleanup(func() {
		_ = commands.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = in.Close()
	})
	return &serving{json.NewEncoder(commands), json.NewDecoder(results)}, applications
}

func freeAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return netip.MustParseAddrPort(l.Addr().String())
}

func (s *serving) run(t *testing.T, target netip.AddrPort) *Result {
	t.Helper()
	err := s.commands.Encode(Round{
		Target: target, Host: "app.test", Path: "/cart", Connections: 4,
		Warm: 10 * time.Millisecond, Measure: 100 * time.Millisecond, Processes: []int{os.Getpid()},
	})
	if err != nil {
		t.Fatal(err)
	}
	var result Result
	if err := s.results.Decode(&result); err != nil {
		t.Fatal(err)
	}
	return &result
}

func address(t *testing.T, s *httptest.Server) netip.AddrPort {
	t.Helper()
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

func TestRounds(t *testing.T) {
	s, applications := serve(t)
	var asked atomic.Int64
	proxy := address(t, httptest.NewServer(&httputil.ReverseProxy{
		Director: func(r *http.Request) {
			if r.Host != "app.test" || r.URL.Path != "/cart" {
				t.Errorf("the proxy is asked for %s%s", r.Host, r.URL.Path)
			}
			asked.Add(1)
			r.URL = &url.URL{Scheme: "http", Host: applications[1].String(), Path: r.URL.Path}
		},
	}))
	for _, test := range []struct {
		what   string
		target netip.AddrPort
		answer string
	}{
		{"an application", applications[0], "stable"},
		{"a proxy", proxy, "canary"},
		{"an application, after a proxy", applications[1], "canary"},
	} {
		r := s.run(t, test.target)
		if r.Error != "" {
			t.Errorf("%s: %s", test.what, r.Error)
			continue
		}
		if r.Requests == 0 || r.Answers[test.answer] != r.Requests || len(r.Answers) != 1 {
			t.Errorf("%s: %d requests and answers %v, expected all to be %q", test.what, r.Requests, r.Answers, test.answer)
		}
		if r.P50 <= 0 || r.P99 < r.P50 || r.Elapsed < 100*time.Millisecond || r.Rate() <= 0 {
			t.Errorf("%s: times that cannot be: %+v", test.what, r)
		}
	}
	if asked.Load() == 0 {
		t.Error("the proxy was not asked")
	}
}

// An answer that no application would give is an error, which does not affect the
// next round.
func TestRoundsThatFail(t *testing.T) {
	s, applications := serve(t)
	handler := func(h http.HandlerFunc) netip.AddrPort { return address(t, httptest.NewServer(h)) }
	for _, test := range []struct {
		what   string
		target netip.AddrPort
		err    string
	}{
		{"another status", handler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }), "502 Bad Gateway"},
		{"no length", handler(func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }), "without Content-Length"},
		{"a connection that ends", handler(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "closed a connection"},
		{"nobody", freeAddress(t), "connection refused"},
	} {
		if r := s.run(t, test.target); !strings.Contains(r.Error, test.err) {
			t.Errorf("%s: error %q, expected %q in it", test.what, r.Error, test.err)
		}
		if r := s.run(t, applications[0]); r.Error != "" || r.Requests == 0 {
			t.Errorf("after %s: %+v", test.what, r)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	const whole = "HTTP/1.1 200 OK\r\nserver: envoy\r\nContent-Length: 6\r\n\r\nstable"
	for i := range len(whole) {
		if _, done, err := parseAnswer([]byte(whole[:i])); done || err != nil {
			t.Errorf("%q: whole %v, error %v", whole[:i], done, err)
		}
	}
	if body, done, err := parseAnswer([]byte(whole)); string(body) != "stable" || !done || err != nil {
		t.Errorf("%q: %q, whole %v, error %v", whole, body, done, err)
	}
	for _, bad := range []string{
		whole + "x",
		strings.Replace(whole, "200", "503", 1),
		strings.Replace(whole, "Length: 6", "Length: six", 1),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		if _, _, err := parseAnswer([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
