package outbound

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// recording is a server that keeps its requests; handle answers them.
type recording struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func newRecording(t *testing.T, start func(*httptest.Server), handle http.HandlerFunc) *recording {
	r := &recording{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		r.requests, r.bodies = append(r.requests, request), append(r.bodies, string(body))
		r.mu.Unlock()
		handle(w, request)
	}))
	start(r.Server)
	t.Cleanup(r.Close)
	return r
}

func (r *recording) all() ([]*http.Request, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests, r.bodies
}

func redirectTo(status int, location *string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			fmt.Fprint(w, "the end")
			return
		}
		w.Header().Set("Location", *location)
		w.WriteHeader(status)
	}
}

func credentials() http.Header {
	return http.Header{
		"Authorization": {"Bearer s3cret"}, "X-Api-Key": {"s3cret"}, "Cookie": {"s3cret"}, "Private-Token": {"s3cret"},
		"Idempotency-Key": {"key"}, "Content-Type": {"application/json"}, "User-Agent": {"test"},
	}
}

func TestRedirects(t *testing.T) {
	for _, test := range []struct {
		method string
		status int
		want   string
		body   string
	}{
		{"GET", 301, "GET", ""}, {"GET", 302, "GET", ""}, {"GET", 307, "GET", ""}, {"POST", 301, "GET", ""}, {"POST", 302, "GET", ""}, {"PUT", 303, "GET", ""},
		{"POST", 307, "POST", "the body"}, {"DELETE", 308, "DELETE", "the body"},
	} {
		t.Run(fmt.Sprint(test.method, test.status), func(t *testing.T) {
			location := "/end"
			server := newRecording(t, (*httptest.Server).Start, redirectTo(test.status, &location))
			client := New(Options{Hosts: hostsOf(t, "127.0.0.1"), Addresses: loopback})
			request := Request{Method: test.method, URL: server.URL + "/begin", Header: credentials()}
			if test.method != "GET" {
				request.Body = []byte("the body")
			}
			response, err := client.Do(within(t), request)
			if err != nil || string(response.Body) != "the end" {
				t.Fatalf("got %+v, %v", response, err)
			}
			if want := test.method != "GET" && test.status < 307; (response.Outcome == steps.MayBeDone) != want {
				t.Errorf("before the redirect: got the outcome %d", response.Outcome)
			}
			requests, bodies := server.all()
			if len(requests) != 2 || requests[1].Method != test.want || bodies[1] != test.body {
				t.Fatalf("got %d requests, the last one %s %q", len(requests), requests[len(requests)-1].Method, bodies)
			}
			if requests[1].Header.Get("Authorization") == "" || requests[1].Header.Get("X-Api-Key") == "" {
				t.Error("the same host did not get the credentials")
			}
			request.NoRedirects = true
			if response, err := client.Do(within(t), request); err != nil || response.Status != test.status {
				t.Errorf("without redirects: got %+v, %v", response, err)
			}
		})
	}
}

// Another port is another origin, and the credentials do not come back with the way back.
func TestRedirectToAnotherOriginHasNoCredentials(t *testing.T) {
	for status, method := range map[int]string{302: "POST", 303: "PUT", 307: "DELETE", 308: "GET"} {
		back := ""
		first := newRecording(t, (*httptest.Server).Start, redirectTo(status, &back))
		there := first.URL + "/end"
		other := newRecording(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/onward" {
				http.Redirect(w, r, "/home", status)
				return
			}
			redirectTo(status, &there)(w, r)
		})
		back = other.URL + "/onward"
		client := New(Options{Hosts: hostsOf(t, "127.0.0.1"), Addresses: loopback})
		request := Request{Method: method, URL: first.URL + "/?token=s3cret", Header: credentials()}
		if status < 307 {
			request.Body = []byte("s3cret")
		}
		response, err := client.Do(within(t), request)
		if err != nil || string(response.Body) != "the end" {
			t.Fatalf("%d: got %+v, %v", status, response, err)
		}
		elsewhere, otherBodies := other.all()
		home, bodies := first.all()
		if otherBodies[0] != "" || bodies[1] != "" {
			t.Errorf("%d: the body went to another origin", status)
		}
		for name, request := range map[string]*http.Request{"the other origin": elsewhere[0], "the other origin, by its own redirect": elsewhere[1], "the first origin, by way of the other": home[1]} {
			for field, values := range request.Header {
				if strings.Contains(fmt.Sprint(values), "s3cret") {
					t.Errorf("%d: %s got %s", status, name, field)
				}
			}
			if request.Header.Get("Idempotency-Key") != "key" || request.Header.Get("User-Agent") != "test" {
				t.Errorf("%d: %s: got header %v", status, name, request.Header)
			}
		}
	}
}

func TestBodiesDoNotGoToAnotherOrigin(t *testing.T) {
	victim, count := counting(t, nil)
	for _, status := range []int{307, 308} {
		server := newRecording(t, (*httptest.Server).Start, redirectTo(status, &victim.URL))
		client := New(Options{Hosts: hostsOf(t, "127.0.0.1"), Addresses: loopback})
		_, err := client.Do(within(t), Request{Method: "POST", URL: server.URL, Body: []byte("body")})
		wantRefused(t, err, "the body of a request is not sent to another origin")
		if kind(err) != "refused, not done" {
			t.Errorf("%d: got %s, though the server has asked for the request elsewhere", status, kind(err))
		}
	}
	if n := count.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

func TestRedirectsThatAreRefused(t *testing.T) {
	victim, count := counting(t, nil)
	location := ""
	server := newRecording(t, (*httptest.Server).Start, redirectTo(302, &location))
	secure := newRecording(t, (*httptest.Server).StartTLS, redirectTo(302, &location))
	client := New(Options{Hosts: hostsOf(t, "127.0.0.1:"+portOf(t, server.Server), "127.0.0.1:"+portOf(t, secure.Server), "loopback.example"), Addresses: loopback})
	for name, test := range map[string]struct{ location, words string }{
		"another host":      {"http://evil.example/" + "path-of-it", `host "evil.example" is not allowed`},
		"another port":      {victim.URL, "is not allowed"},
		"an address":        {"http://169.254.169.254/latest", `host "169.254.169.254" is not allowed`},
		"a user":            {"http://127.0.0.1:" + portOf(t, server.Server) + "@127.0.0.1:" + portOf(t, victim) + "/", "user before its host"},
		"without a scheme":  {"//127.0.0.1:" + portOf(t, victim), "is not allowed"},
		"another scheme":    {"file:///etc/passwd", "scheme is neither https nor http"},
		"no URL":            {"http://%zz", "no valid URL"},
		"round and round":   {"/again", "6 redirects: want 5 at most"},
		"a long one":        {"/" + strings.Repeat("a", maxURL), "more than"},
		"a decimal address": {"http://2130706433:" + portOf(t, victim), "neither a name"},
	} {
		t.Run(name, func(t *testing.T) {
			location = test.location
			_, err := client.Do(within(t), Request{Method: "POST", URL: server.URL})
			wantRefused(t, err, test.words)
			if strings.Contains(err.Error(), "path-of-it") {
				t.Errorf("the error holds the path: %q", err)
			}
			if kind(err) != "refused, may be done" {
				t.Errorf("the error does not say that the outside had the request: %s, %v", kind(err), err)
			}
		})
	}
	t.Run("from https to http", func(t *testing.T) {
		location = server.URL + "/end"
		_, err := client.Do(within(t), Request{Method: "GET", URL: secure.URL, CA: certificateOf(secure.Server)})
		wantRefused(t, err, "which is not encrypted")
	})
	t.Run("hosts of the request only", func(t *testing.T) {
		location = secure.URL + "/end"
		_, err := client.Do(within(t), Request{Method: "GET", URL: server.URL, Hosts: hostsOf(t, "127.0.0.1:"+portOf(t, server.Server)), HostsOnly: true})
		wantRefused(t, err, "not among the hosts of the preset")
	})
	if n := count.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}
