package outbound

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

func certificateOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func here(t *testing.T) *Client {
	return New(Options{Hosts: hostsOf(t, "127.0.0.1", "*.example"), Addresses: loopback, UserAgent: "rollouts-plugin-step/v1"})
}

// kind names an error by what another attempt would do, and by its outcome.
func kind(err error) string {
	if err == nil {
		return "none"
	}
	var e *steps.Error
	if !errors.As(err, &e) {
		return fmt.Sprintf("%T", err)
	}
	name := map[steps.Outcome]string{steps.NotDone: "not done", steps.MayBeDone: "may be done", steps.Done: "done"}[e.Outcome]
	if e.Final {
		name = "refused, " + name
	}
	return name
}

func TestRequestAndAnswer(t *testing.T) {
	server := newRecording(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Run", "7")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "made")
	})
	response, err := here(t).Do(within(t), Request{Method: "PUT", URL: server.URL + "/a%2Fb?c=d#e", Header: http.Header{"X-Key": {"value"}}, Body: []byte("body")})
	if err != nil || response.Status != 201 || response.Header.Get("X-Run") != "7" || string(response.Body) != "made" {
		t.Fatalf("got %+v, %v", response, err)
	}
	requests, bodies := server.all()
	r := requests[0]
	if r.Method != "PUT" || r.RequestURI != "/a%2Fb?c=d" || bodies[0] != "body" || r.Header.Get("X-Key") != "value" || r.Header.Get("User-Agent") != "rollouts-plugin-step/v1" {
		t.Errorf("got %s %s %v %q", r.Method, r.RequestURI, r.Header, bodies)
	}
}

func TestHeadersThatAreRefused(t *testing.T) {
	server, count := counting(t, nil)
	for name, value := range map[string]string{
		"Host": "evil.example", "host": "evil.example", "Content-Length": "0", "transfer-encoding": "chunked", "Connection": "X-Api-Key",
		"Keep-Alive": "1", "TE": "trailers", "Trailer": "X", "Upgrade": "h2c", "Proxy-Authorization": "x", "Expect": "100-continue",
		"X-Injected": "a\r\nX-Other: b", "X-Line": "a\nb", "X-Nul": "a\x00b", "X-Delete": "a\x7f", "X-Escape": "a\x1b[0m",
		"": "a", "X Y": "a", "X:Y": "a", "X\r\nY": "a", "Ä": "a",
	} {
		_, err := here(t).Do(within(t), Request{Method: "GET", URL: server.URL, Header: http.Header{name: {value}}})
		if kind(err) != "refused, not done" {
			t.Errorf("header %q: %q: got %v", name, value, err)
		}
		if value := strings.TrimSpace(value); len(value) > 3 && err != nil && strings.Contains(err.Error(), value) {
			t.Errorf("header %q: the error holds the value: %q", name, err)
		}
	}
	_, err := here(t).Do(within(t), Request{Method: "GET", URL: server.URL, Header: http.Header{"X-Long": {strings.Repeat("a", maxHeader)}}})
	wantRefused(t, err, "bytes")
	_, err = here(t).Do(within(t), Request{Method: "POST", URL: server.URL, Body: make([]byte, maxRequest+1)})
	wantRefused(t, err, "the body has")
	_, err = here(t).Do(within(t), Request{Method: "GET / HTTP/1.1\r\nX: y", URL: server.URL})
	wantRefused(t, err, "no method")
	if n := count.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

func TestAnswersThatAreTooLarge(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/whole":
			_, _ = w.Write(make([]byte, maxResponse))
		case "/more":
			_, _ = w.Write(make([]byte, maxResponse+1))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			zipped := gzip.NewWriter(w)
			for range 64 {
				_, _ = zipped.Write(make([]byte, 1<<20))
			}
			_ = zipped.Close()
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("a", 2*maxResponseHeader))
		}
	}))
	defer server.Close()
	if response, err := here(t).Do(within(t), Request{Method: "GET", URL: server.URL + "/whole"}); err != nil || len(response.Body) != maxResponse {
		t.Errorf("an answer of 1 MiB: %v", err)
	}
	for _, path := range []string{"/more", "/bomb", "/endless"} {
		_, err := here(t).Do(within(t), Request{Method: "GET", URL: server.URL + path})
		wantRefused(t, err, "more than 1048576 bytes")
	}
	if _, err := here(t).Do(within(t), Request{Method: "GET", URL: server.URL + "/header"}); kind(err) != "may be done" {
		t.Errorf("a long header: got %v", err)
	}
}

// An error tells whether the outside system may have received the request.
func TestWhetherTheOutsideHadTheRequest(t *testing.T) {
	// giveUp ends the time of the request under way.
	var giveUp atomic.Pointer[context.CancelFunc]
	hangUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			(*giveUp.Load())()
			<-r.Context().Done()
		case "/half":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "half")
		case "/see-other":
			http.Redirect(w, r, "http://gone.example/", http.StatusSeeOther)
		case "/elsewhere":
			http.Redirect(w, r, "http://gone.example/", http.StatusTemporaryRedirect)
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	defer hangUp.Close()
	hangUp.Config.ErrorLog = nil
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	noTLS, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = noTLS.Close() }()
	go func() {
		for {
			connection, err := noTLS.Accept()
			if err != nil {
				return
			}
			(*giveUp.Load())()
			defer func() { _ = connection.Close() }()
		}
	}()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	resolver := newNameServer(t, nil)
	for name, test := range map[string]struct{ method, url, want string }{
		"hangs up":                             {"POST", hangUp.URL, "may be done"},
		"hangs up on a read":                   {"GET", hangUp.URL, "may be done"},
		"answers never":                        {"POST", hangUp.URL + "/hang", "may be done"},
		"half an answer":                       {"POST", hangUp.URL + "/half", "may be done"},
		"redirects afterwards, to nobody":      {"POST", hangUp.URL + "/see-other", "may be done"},
		"redirects a read to nobody":           {"GET", hangUp.URL + "/see-other", "not done"},
		"redirects the request, to nobody":     {"POST", hangUp.URL + "/elsewhere", "not done"},
		"nobody listens":                       {"POST", "http://" + closed.Addr().String(), "not done"},
		"no such name":                         {"POST", "http://gone.example", "not done"},
		"no TLS in time":                       {"POST", "https://" + noTLS.Addr().String(), "not done"},
		"certificate of an unknown authority":  {"POST", untrusted.URL, "not done"},
		"http where https is spoken, answered": {"POST", strings.Replace(untrusted.URL, "https:", "http:", 1), "none"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			giveUp.Store(&cancel)
			client := New(Options{Hosts: hostsOf(t, "127.0.0.1", "*.example"), Addresses: loopback, Resolver: resolver})
			_, err := client.Do(ctx, Request{Method: test.method, URL: test.url + "?secret=s3cret"})
			if got := kind(err); got != test.want {
				t.Errorf("got %s (%v), want %s", got, err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error holds the query: %q", err)
			}
		})
	}
}

// net/http repeats a request with an Idempotency-Key by itself if its connection was used
// before and ends without an answer.
func TestARequestThatChangesSomethingIsSentOnce(t *testing.T) {
	var effects atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if !r.Close {
			t.Error("the connection would be left open")
		}
		if r.URL.Path == "/before" {
			return
		}
		effects.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	client := here(t)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "GET"} {
		effects.Store(0)
		if _, err := client.Do(within(t), Request{Method: "GET", URL: server.URL + "/before"}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Do(within(t), Request{Method: method, URL: server.URL, Header: http.Header{"Idempotency-Key": {"key"}}}); kind(err) != "may be done" {
			t.Errorf("%s: got %v", method, err)
		}
		if n := effects.Load(); n != 1 {
			t.Errorf("%s: the outside had %d requests, want 1", method, n)
		}
	}
}

// The body of a 101 answer would be read until the end of the connection.
func TestAnotherProtocol(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		t.Cleanup(func() { _ = connection.Close() })
	}))
	defer server.Close()
	done := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := here(t).Do(ctx, Request{Method: "GET", URL: server.URL})
		done <- err
	}()
	select {
	case err := <-done:
		wantRefused(t, err, "answered 101")
	case <-time.After(time.Minute):
		t.Error("the request goes on when its time is over")
	}
}

func TestTLS(t *testing.T) {
	quiet := func(server *httptest.Server) *httptest.Server {
		server.Config.ErrorLog = discard
		server.StartTLS()
		t.Cleanup(server.Close)
		return server
	}
	server := quiet(httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	quiet(old)
	resolver := newNameServer(t, map[string][]string{"other-name.test": {"127.0.0.1"}, "a.example.com": {"127.0.0.1"}})
	client := New(Options{Hosts: hostsOf(t, "127.0.0.1", "other-name.test"), Addresses: loopback, Resolver: resolver})
	ca := certificateOf(server)
	if _, err := client.Do(within(t), Request{Method: "GET", URL: server.URL, CA: ca}); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	for name, test := range map[string]struct {
		url   string
		ca    []byte
		words string
	}{
		"without the CA":       {server.URL, nil, "unknown authority"},
		"TLS 1.1":              {old.URL, certificateOf(old), "protocol version"},
		"a name of nobody":     {"https://other-name.test:" + portOf(t, server), ca, "not other-name.test"},
		"a CA that is no text": {server.URL, []byte("no PEM"), "the CA has no certificate"},
		"an empty CA":          {server.URL, []byte{}, "the CA has no certificate"},
	} {
		if _, err := client.Do(within(t), Request{Method: "GET", URL: test.url, CA: test.ca}); kind(err) != "not done" || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	client := here(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			want := fmt.Sprint(i)
			response, err := client.Do(within(t), Request{Method: "POST", URL: server.URL, Body: []byte(want)})
			if err != nil || string(response.Body) != want {
				t.Errorf("request %d: got %+v, %v", i, response, err)
			}
		})
	}
	all.Wait()
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"https://ci.example.com/runs?x=y#z", "http://[::1]:80", "http://127.1", "http://a@b", "//x", `http://a\@b`} {
		f.Add(seed)
	}
	allowed, err := ParseHosts([]string{"ci.example.com", "*.apps.example.com:8443", "10.0.0.5"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseURL(text)
		if err != nil || allowed.access(at) == notAllowed {
			return
		}
		// The host that is allowed is the one that net/http would connect to.
		host := strings.ToLower(strings.TrimSuffix(at.url.Hostname(), "."))
		if host != "ci.example.com" && !strings.HasSuffix(host, ".apps.example.com") && host != "10.0.0.5" && host != "::ffff:10.0.0.5" && host != "::ffff:a00:5" {
			t.Errorf("%q is allowed, which goes to %q", text, host)
		}
	})
}
