package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// cut returns how many answers of the Service stable were cut short, by the application,
// the client and a shutdown.
func (w *world) cut() (by [3]float64) {
	w.t.Helper()
	for i, who := range []string{byApplication, byClient, byShutdown} {
		by[i] = value(w.t, w.proxy, "interceptor_answers_cut_short_total", "demo", "app", "stable", who)
	}
	return by
}

// An answer that its application, its client or a shutdown ends early is counted apart; the
// code that it began with is counted as before, and complete answers are not.
func TestAnswersCutShortAreCounted(t *testing.T) {
	for _, in := range []string{"HTTP/1.1", "h2c"} {
		for _, out := range []string{"HTTP/1.1", "h2c"} {
			t.Run(in+" to "+out, func(t *testing.T) {
				w := newWorld(t, func(s *Settings) { s.SendTimeout = time.Second })
				if in == "h2c" {
					w.client = h2cClient(t)
				}
				w.client.Timeout = 0 // the contexts of the requests have it
				stop := make(chan struct{})
				app := w.appServer(func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/length":
						w.Header().Set("Content-Length", "100")
						fallthrough
					case "/chunks":
						_, _ = io.WriteString(w, "hello")
						_ = http.NewResponseController(w).Flush()
						panic(http.ErrAbortHandler)
					case "/endless":
						w.WriteHeader(http.StatusTeapot)
						_ = http.NewResponseController(w).Flush()
						select {
						case <-stop:
						case <-r.Context().Done():
						}
					default:
						_, _ = io.WriteString(w, "hello")
					}
				}, out == "h2c")
				t.Cleanup(func() { close(stop) })
				w.service("stable", map[string]string{"h2c": "kubernetes.io/h2c"}[out], app.Listener.Addr().String())
				w.object("")
				w.commit()

				eventuallyCut := func(byApplication, byClient, byShutdown float64) {
					t.Helper()
					want := [3]float64{byApplication, byClient, byShutdown}
					eventually(t, "the answers cut short are counted", func() bool { return w.cut() == want })
				}
				w.get("/")
				for i, path := range []string{"/length", "/chunks"} {
					res, err := w.client.Do(w.request(http.MethodGet, path, nil))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.ReadAll(res.Body); err == nil {
						t.Errorf("%s is taken for complete", path)
					}
					_ = res.Body.Close()
					eventuallyCut(float64(i+1), 0, 0)
				}
				begin := func() (end context.CancelFunc, res *http.Response) {
					t.Helper()
					ctx, end := context.WithCancel(t.Context())
					res, err := w.client.Do(w.request(http.MethodGet, "/endless", nil).WithContext(ctx))
					if err != nil {
						t.Fatal(err)
					}
					return end, res
				}
				leave, left := begin()
				leave()
				_ = left.Body.Close()
				eventuallyCut(2, 1, 0)

				end, res := begin()
				defer end()
				defer func() { _ = res.Body.Close() }()
				over, cancel := context.WithCancel(t.Context())
				cancel()
				if err := w.server.Shutdown(over); !errors.Is(err, context.Canceled) {
					t.Errorf("the shutdown: %v", err)
				}
				eventuallyCut(2, 1, 1)
				for code, want := range map[string]float64{"200": 3, "418": 2} {
					if got := value(t, w.proxy, "interceptor_requests_total", "demo", "app", "stable", code); got != want {
						t.Errorf("%v requests are counted with %s, want %v", got, code, want)
					}
				}
			})
		}
	}
}

// So is an answer that a client takes nothing of for too long, and one to a client whose
// request breaks off, or turns out to be malformed.
func TestAnswersThatAClientDoesNotTakeAreCounted(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.SendTimeout = time.Second })
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/upload" {
			_ = http.NewResponseController(w).EnableFullDuplex()
			_ = http.NewResponseController(w).Flush()
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		block := make([]byte, 64<<10)
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	w.object("")
	w.commit()
	client := h2cClient(t)
	client.Timeout = 0
	res, err := client.Do(w.request(http.MethodGet, "/", nil).WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	eventually(t, "the answer that is not read is counted", func() bool {
		return w.cut() == [3]float64{0, 1, 0}
	})
	for i, ends := range []string{"", "no length of a chunk\r\n"} {
		c, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "POST /upload HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, ends)
		if ends == "" {
			_ = c.Close()
		}
		eventually(t, "the answer to half an upload is counted", func() bool {
			return w.cut() == [3]float64{0, float64(i + 2), 0}
		})
	}
}
