package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestRequestsAreSplit(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(named("stable")))
	w.service("canary", "", w.app(named("canary")))
	w.object("stable=80 canary=20")
	w.commit()
	var canary atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				if _, body := w.get("/"); body == "canary" {
					canary.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := canary.Load(); n < 19 || n > 21 {
		t.Errorf("the canary has %d of 100 requests, want 20 ± 1", n)
	}

	w.object("stable=0 canary=100")
	w.commit()
	for range 10 {
		if _, body := w.get("/"); body != "canary" {
			t.Fatalf("answered by %s after the promotion", body)
		}
	}
}

func TestPathsAndQueriesGoOnAsTheyCame(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }))
	w.object("")
	w.commit()
	for _, target := range []string{
		"/", "/a/../b", "//two//slashes", "/%2F%2f", "/a|b", "/a?", "/?x=1;y=2&z=%zz", "/%41", "/a%20b?c+d", "/;p=1",
	} {
		c := dial(t, w.address)
		c.send("GET " + target + " HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n")
		if _, got := c.answer("GET"); got != target {
			t.Errorf("%q arrived as %q", target, got)
		}
	}
}

func TestHeaders(t *testing.T) {
	tests := map[string]struct {
		edge bool
		in   map[string]string
		want map[string]string // as the application sees them; "" for none
	}{
		"forwarded": {
			want: map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "app.test", "X-Forwarded-Proto": "http", "User-Agent": ""},
		},
		"behind an ingress": {
			in:   map[string]string{"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Host": "shop", "X-Forwarded-Proto": "https", "Forwarded": "for=1.2.3.4"},
			want: map[string]string{"X-Forwarded-For": "1.2.3.4, 127.0.0.1", "X-Forwarded-Host": "shop", "X-Forwarded-Proto": "https", "Forwarded": "for=1.2.3.4"},
		},
		"at the edge": {
			edge: true,
			in:   map[string]string{"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Host": "shop", "X-Forwarded-Proto": "https", "Forwarded": "for=1.2.3.4"},
			want: map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "app.test", "X-Forwarded-Proto": "http", "Forwarded": ""},
		},
		"hop by hop": {
			in: map[string]string{
				"Connection": "keep-alive, x-secret, X-Forwarded-For", "Keep-Alive": "5", "X-Secret": "s", "Proxy-Authorization": "p",
				"Proxy-Connection": "c", "Te": "gzip", "X-Other": "o",
			},
			want: map[string]string{
				"Connection": "", "Keep-Alive": "", "X-Secret": "", "Proxy-Authorization": "", "Proxy-Connection": "", "Te": "",
				"X-Other": "o", "X-Forwarded-For": "127.0.0.1",
			},
		},
		"trailers wanted": {
			in:   map[string]string{"Connection": "TE", "Te": "trailers, deflate"},
			want: map[string]string{"Te": "trailers", "Connection": ""},
		},
		"no upgrade to HTTP/2": {
			in:   map[string]string{"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAARAAAAAAAIAAAAA"},
			want: map[string]string{"Connection": "", "Upgrade": "", "HTTP2-Settings": ""},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *Settings) { s.Edge = tt.edge })
			seen := make(chan http.Header, 1)
			w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
				seen <- r.Header.Clone()
				w.Header().Set("Connection", "x-hop")
				w.Header().Set("X-Hop", "1")
				w.Header().Set("X-End", "2")
				w.WriteHeader(http.StatusNoContent)
			}))
			w.object("")
			w.commit()
			c := dial(t, w.address)
			request := "GET / HTTP/1.1\r\nHost: app.test\r\n"
			for name, value := range tt.in {
				request += name + ": " + value + "\r\n"
			}
			c.send(request + "\r\n")
			res, _ := c.answer("GET")
			if res.Header.Get("X-Hop") != "" || res.Header.Get("X-End") != "2" || res.Header.Get("Content-Type") != "" {
				t.Errorf("the client got %v", res.Header)
			}
			got := <-seen
			for name, want := range tt.want {
				if have := strings.Join(got.Values(name), " | "); have != want {
					t.Errorf("%s: %q, want %q", name, have, want)
				}
			}
		})
	}
}

func TestConnectionRefusedIsTriedElsewhere(t *testing.T) {
	t.Run("in the same backend", func(t *testing.T) {
		w := newWorld(t)
		w.service("stable", "", unused(t), w.app(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
		w.object("")
		w.commit()
		for range 20 {
			if res, body := w.do(w.request(http.MethodPost, "/", strings.NewReader("hello"))); res.StatusCode != http.StatusOK || body != "hello" {
				t.Fatalf("%s %q", res.Status, body)
			}
		}
	})
	t.Run("in another backend", func(t *testing.T) {
		w := newWorld(t)
		w.service("stable", "kubernetes.io/h2c", w.appServer(named("stable"), true).Listener.Addr().String())
		w.service("canary", "", unused(t))
		w.object("stable=1 canary=99")
		w.commit()
		for range 20 {
			if res, body := w.get("/"); res.StatusCode != http.StatusOK || body != "stable" {
				t.Fatalf("%s %q", res.Status, body)
			}
		}
	})
	t.Run("in another backend when all of one are gone", func(t *testing.T) {
		w := newWorld(t)
		w.service("stable", "", w.app(named("stable")))
		w.service("canary", "", unused(t), unused(t), unused(t))
		w.object("stable=1 canary=99")
		w.commit()
		for range 20 {
			if res, body := w.get("/"); res.StatusCode != http.StatusOK || body != "stable" {
				t.Fatalf("%s %q", res.Status, body)
			}
		}
	})
	t.Run("and nowhere when there is nowhere", func(t *testing.T) {
		w := newWorld(t)
		w.service("stable", "", unused(t))
		w.object("", waitsFor("1ms"))
		w.commit()
		if res, _ := w.get("/"); res.StatusCode != http.StatusBadGateway {
			t.Errorf("%s, want 502", res.Status)
		}
	})
}

func TestWhatWasSentIsNotSentAgain(t *testing.T) {
	w := newWorld(t)
	var requests atomic.Int64
	broken := func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		panic(http.ErrAbortHandler)
	}
	w.service("stable", "", w.app(broken), w.app(broken))
	w.object("")
	w.commit()
	for what, body := range map[string]io.Reader{"with a body": strings.NewReader("once"), "without a body": nil} {
		requests.Store(0)
		if res, _ := w.do(w.request(http.MethodPost, "/", body)); res.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: %s, want 502", what, res.Status)
		}
		if n := requests.Load(); n != 1 {
			t.Errorf("%s: sent %d times", what, n)
		}
	}
}
