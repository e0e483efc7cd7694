package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// A request is not sent to the application once its client has left.
func TestAHeldRequestIsNotSentOnceItsClientHasLeft(t *testing.T) {
	post := func(length int, body string) string {
		return fmt.Sprintf("POST /order HTTP/1.1\r\nHost: app.test\r\nContent-Length: %d\r\n\r\n%s", length, body)
	}
	tests := map[string]string{
		"no body":            "GET /order HTTP/1.1\r\nHost: app.test\r\n\r\n",
		"a body":             post(5, "hello"),
		"a long body":        post(largestReadAhead, strings.Repeat("x", largestReadAhead)),
		"half of a body":     post(10, "hello"),
		"none of a body":     post(10, ""),
		"a body of HTTP/1.0": strings.Replace(post(5, "hello"), "HTTP/1.1", "HTTP/1.0", 1),
	}
	for name, request := range tests {
		for _, fallback := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", fallback ", fallback), func(t *testing.T) {
				w := newWorld(t)
				w.service("stable", "")
				w.object("")
				w.commit()
				address := w.address
				if fallback {
					address, request = w.serveFallback(), envoyHeader(t, "demo/app")+request
				}
				c := dial(t, address)
				c.send(request)
				eventually(t, "the request is held", func() bool { return w.held() == 1 })
				if err := c.conn.Close(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the request is given up", func() bool { return w.held() == 0 })
				eventually(t, "it is counted as abandoned", func() bool {
					return value(t, w.proxy, "interceptor_cold_starts_total", "demo", "app", "abandoned") == 1
				})
				var sent atomic.Int32
				w.service("stable", "", w.app(func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/order" {
						sent.Add(1)
					}
				}))
				w.commit()
				w.get("/")
				if sent.Load() != 0 {
					t.Error("the application got the request")
				}
				eventually(t, "the request is counted as 499", func() bool {
					return value(t, w.proxy, "interceptor_requests_total", "demo", "app", "stable", "499") == 1
				})
			})
		}
	}
}

// After a wait the application gets the same body, however it arrived, and nothing else
// changes.
func TestBodiesOfHeldRequests(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", largestReadAhead/16)
	tests := map[string]struct {
		header, before, after, want string
		informed                    bool // the client gets 100 Continue
	}{
		"short":          {header: "Content-Length: 5", before: "hello", want: "hello"},
		"in two":         {header: "Content-Length: 10", before: "hello", after: "world", want: "helloworld"},
		"later":          {header: "Content-Length: 5", after: "hello", want: "hello"},
		"long":           {header: "Content-Length: 65536", before: long, want: long},
		"long, in two":   {header: "Content-Length: 65536", before: long[:1000], after: long[1000:], want: long},
		"too long":       {header: "Content-Length: 65537", before: long, after: "x", want: long + "x"},
		"chunks":         {header: "Transfer-Encoding: chunked", before: "5\r\nhello\r\n", after: "5\r\nworld\r\n0\r\n\r\n", want: "helloworld"},
		"none":           {header: "Content-Length: 0"},
		"when asked for": {header: "Expect: 100-continue\r\nContent-Length: 5", after: "hello", want: "hello", informed: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.service("stable", "")
			w.object("")
			w.commit()
			c := dial(t, w.address)
			c.send("POST / HTTP/1.1\r\nHost: app.test\r\n" + tt.header + "\r\n\r\n" + tt.before)
			eventually(t, "the request is held", func() bool { return w.held() == 1 })
			w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(body)
			}))
			w.commit()
			eventually(t, "the request is on its way", func() bool { return w.held() == 0 })
			if tt.informed {
				if res := c.header(http.MethodPost); res.StatusCode != http.StatusContinue {
					t.Fatalf("told %s before the body", res.Status)
				}
			}
			c.send(tt.after)
			if res, body := c.answer(http.MethodPost); res.StatusCode != http.StatusOK || body != tt.want {
				t.Errorf("%s, a body of %d bytes; want 200 with %d", res.Status, len(body), len(tt.want))
			}
			// The next request is read from where this one ended.
			c.send("POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 4\r\n\r\nnext")
			if _, body := c.answer(http.MethodPost); body != "next" {
				t.Errorf("the next request was answered %q", body)
			}
		})
	}
}

// When the wait ends with 503, the request is answered at once, even if its body has
// not arrived. Bytes that arrive later are not taken for a request.
func TestHeldRequestWithoutItsBodyIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "")
	soon := "20ms"
	w.object("", func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
		spec.Timeouts = &httpv1alpha1.Timeouts{ConditionWait: &soon}
	})
	w.commit()
	c := dial(t, w.address)
	c.send("POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 1000\r\n\r\nhello")
	res := c.header(http.MethodPost)
	if res.StatusCode != http.StatusServiceUnavailable || !res.Close {
		t.Errorf("%s, and the connection ends: %v; want 503, and true", res.Status, res.Close)
	}
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "demo/app") {
		t.Errorf("%q %v", body, err)
	}
	_, _ = io.WriteString(c.conn, "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
	_ = c.conn.(interface{ CloseWrite() error }).CloseWrite()
	if !c.closed() {
		t.Error("what came after the answer was answered")
	}
}
