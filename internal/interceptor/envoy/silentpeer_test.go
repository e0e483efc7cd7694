package envoy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// silence bounds each wait for something that a timeout of a second ends.
const silence = time.Minute

// zeros is a body of zeros, and counts how many of its bytes were read.
type zeros struct {
	left  int64
	taken *atomic.Int64
}

func (z *zeros) Read(into []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(into)), z.left))
	clear(into[:n])
	z.left -= int64(n)
	z.taken.Add(int64(n))
	return n, nil
}

// pausing is an application that reads the header of a request, and its body once goOn is
// called, and then answers. The error of this, or nil, comes from ended.
func pausing(t *testing.T) (address netip.AddrPort, goOn func(), ended <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	released, done := make(chan struct{}), make(chan error, 1)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = c.Close() }()
		r, err := http.ReadRequest(bufio.NewReaderSize(c, 512))
		if err != nil {
			done <- err
			return
		}
		<-released
		if _, err = io.Copy(io.Discard, r.Body); err == nil {
			_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
		done <- err
	}()
	return netip.MustParseAddrPort(l.Addr().String()), func() { close(released) }, done
}

// upload sends a body that no buffer on the way has room for.
func upload(t *testing.T, address string, taken *atomic.Int64) (int, error) {
	t.Helper()
	const large = 64 << 20
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/", &zeros{left: large, taken: taken})
	if err != nil {
		return 0, err
	}
	r.ContentLength, r.Host = large, "app.example.com"
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

// silent starts either proxy before an application, with changed settings.
func silent(t *testing.T, app netip.AddrPort, change func(*proxy.Settings)) map[string]func(*testing.T) string {
	t.Helper()
	w := newWorld(t)
	w.service("app", routes.HTTP1, app)
	w.object("app", "app", "", nil)
	table := w.table()
	settings := proxy.DefaultSettings()
	change(&settings)
	return map[string]func(*testing.T) string{
		"embedded": func(t *testing.T) string { return embeddedWith(t, settings, table) },
		"envoy": func(t *testing.T) string {
			return startEnvoy(t, static(t, newTranslator(t, Options{Connections: connectionsOf(settings)}), table, nil))
		},
	}
}

// An application that reads nothing for longer than the user timeout is treated like one
// whose node is gone: its connection is closed, and the client gets an error. (A node
// that is gone does not answer at all. To the proxy's kernel both look the same: data
// stays in the send buffer.)
func TestAnApplicationThatPausesReadingForTooLongIsGivenUp(t *testing.T) {
	for _, kind := range []string{"embedded", "envoy"} {
		t.Run(kind, func(t *testing.T) {
			app, goOn, ended := pausing(t)
			address := silent(t, app, func(s *proxy.Settings) { s.UserTimeout = time.Second })[kind](t)
			code, err := upload(t, address, new(atomic.Int64))
			if errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("the client waits for %v, in vain", silence)
			}
			if err == nil && code != http.StatusBadGateway && code != http.StatusServiceUnavailable {
				t.Errorf("answered %d, want 502 or 503", code)
			}
			goOn()
			if err := <-ended; err == nil {
				t.Error("the application has got the whole body")
			}
		})
	}
}

// An application that reads on within the timeout loses nothing.
func TestAnApplicationMayPauseReading(t *testing.T) {
	for _, kind := range []string{"embedded", "envoy"} {
		t.Run(kind, func(t *testing.T) {
			app, goOn, ended := pausing(t)
			address := silent(t, app, func(*proxy.Settings) {})[kind](t)
			var taken atomic.Int64
			go func() {
				// Wait until no more of the body is read.
				for last := int64(-1); ; time.Sleep(300 * time.Millisecond) {
					now := taken.Load()
					if now > 0 && now == last {
						break
					}
					last = now
				}
				goOn()
			}()
			if code, err := upload(t, address, &taken); err != nil || code != http.StatusOK {
				t.Errorf("answered %d, %v; want 200", code, err)
			}
			if err := <-ended; err != nil {
				t.Errorf("the application: %v", err)
			}
		})
	}
}

// If a client reads nothing of its answer, its connection is closed, and the
// application's request ends.
func TestAClientThatReadsNothingIsGivenUp(t *testing.T) {
	for _, kind := range []string{"embedded", "envoy"} {
		t.Run(kind, func(t *testing.T) {
			ended := make(chan error, 1)
			app := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				block := make([]byte, 64<<10)
				for {
					if _, err := w.Write(block); err != nil {
						ended <- err
						return
					}
				}
			}))
			address := silent(t, app, func(s *proxy.Settings) { s.SendTimeout = time.Second })[kind](t)
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if _, err := io.WriteString(c, get+"\r\n"); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(silence):
				t.Fatalf("the application writes still, after %v", silence)
			}
		})
	}
}
