package envoy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/pires/go-proxyproto"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// chunk is what a flood sends at a time.
var chunk [16 << 10]byte

// flood is an application that answers /endless without end, and counts the bytes that it
// could send. It answers /unread without reading the request's body, and any other request
// with its body.
type flood struct {
	sent  atomic.Int64
	ended chan struct{} // with the test
}

// serveFlood serves a flood with little memory in the kernel for its answers, so that
// Envoy has most of them.
// wrap, if any, is around its listener.
func serveFlood(t *testing.T, wrap func(net.Listener) net.Listener) (*flood, netip.AddrPort) {
	t.Helper()
	f := &flood{ended: make(chan struct{})}
	address := serveOn(t, f, func(l net.Listener) net.Listener {
		if l = (smallBuffers{l}); wrap != nil {
			l = wrap(l)
		}
		return l
	})
	t.Cleanup(func() { close(f.ended) })
	return f, address
}

func (f *flood) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/endless":
		for {
			n, err := w.Write(chunk[:])
			if f.sent.Add(int64(n)); err != nil {
				return
			}
		}
	case "/unread":
		_ = http.NewResponseController(w).EnableFullDuplex()
		_ = http.NewResponseController(w).Flush()
		<-f.ended
	default:
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}
}

// asFallback makes a listener like the interceptor's for requests that are handed over with
// TLS.
func asFallback(t *testing.T, certFile, keyFile string) func(net.Listener) net.Listener {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return func(l net.Listener) net.Listener {
		return &proxyproto.Listener{Listener: tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})}
	}
}

type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(32 << 10)
	}
	return c, err
}

// oneConnection returns a client that sends all requests on one HTTP/2 connection, and
// reads of an answer's body only what its caller reads.
func oneConnection(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// begin sends a request, and returns once the header of its answer is there.
func begin(t *testing.T, client *http.Client, address, host, path string, body io.Reader) error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, body)
	if err != nil {
		return err
	}
	r.Host = host
	timer := time.AfterFunc(20*time.Second, cancel)
	defer timer.Stop()
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	t.Cleanup(func() { cancel(); _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", res.Status)
	}
	return nil
}

// echoes fails the test unless a request with a small body is answered with it.
func echoes(t *testing.T, client *http.Client, address, host string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	res, err := client.Do(r)
	if err != nil {
		t.Fatalf("another request: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "hello" {
		t.Fatalf("another request is answered %s %q, %v", res.Status, body, err)
	}
}

// settled waits until a number does not grow any more.
func settled(t *testing.T, number func() int64) int64 {
	t.Helper()
	last, since := number(), time.Now()
	for deadline := time.Now().Add(2 * time.Minute); time.Since(since) < 2*time.Second; time.Sleep(50 * time.Millisecond) {
		if now := number(); now != last {
			last, since = now, time.Now()
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d still grows", last)
		}
	}
	return last
}

// resident returns the memory of a process in MB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() / 1e6
}

// 1,000 answers that nobody reads take at most 400 MB of an Envoy, and an Envoy with
// the memory of deploy/kedify-proxy serves others meanwhile.
func TestUnreadAnswersTakeLittleMemoryOfARealEnvoy(t *testing.T) {
	for name, tt := range map[string]struct {
		protocol   routes.Protocol
		handedOver bool
	}{
		"http/1.1": {routes.HTTP1, false}, "h2c": {routes.H2C, false},
		"handed over to an interceptor with TLS": {routes.HTTP1, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var app *flood
			var b *bootstrapv3.Bootstrap
			if tt.handedOver {
				cert, key := certificate(t)
				var at netip.AddrPort
				app, at = serveFlood(t, asFallback(t, cert, key))
				w.service("app", tt.protocol)
				w.object("app", "app", "", nil)
				b = static(t, newTranslator(t, Options{}), w.table(), []netip.AddrPort{at})
				b.StaticResources.Clusters[0].LoadAssignment.Endpoints[1].LbEndpoints[0].GetEndpoint().Address = within(FallbackListenerName)
				if err := addFallback(b, BootstrapOptions{XDSAddress: "xds:5678", FallbackAddress: at.String(), CAFile: cert, CertFile: cert, KeyFile: key}); err != nil {
					t.Fatal(err)
				}
			} else {
				var at netip.AddrPort
				app, at = serveFlood(t, nil)
				w.service("app", tt.protocol, at)
				w.object("app", "app", "", nil)
				b = static(t, newTranslator(t, Options{}), w.table(), nil)
			}
			b.OverloadManager = overloadManager(BootstrapOptions{MaxConnections: 50_000, MaxHeap: 900 << 20})
			e, address := runEnvoy(t, b)
			echoes(t, oneConnection(t), address, "app.example.com")
			before := resident(t, e.Pid())

			var begun sync.WaitGroup
			for range 4 {
				client := oneConnection(t)
				begun.Go(func() { // in turn: 1,000 TLS handshakes at a time would outlast the timeout for connecting
					for range proxy.DefaultSettings().MaxStreams {
						if err := begin(t, client, address, "app.example.com", "/endless", nil); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			begun.Wait()
			sent := settled(t, app.sent.Load)
			taken := resident(t, e.Pid()) - before
			t.Logf("the application has sent %d MB, of which Envoy has %d MB", sent/1e6, taken)
			if taken > 400 {
				t.Errorf("Envoy takes %d MB more, want at most 400", taken)
			}
			echoes(t, oneConnection(t), address, "app.example.com")
		})
	}
}

// A client that reads none of several answers of an application over HTTP/2 does not
// stop the other answers on the same connection of that application.
func TestUnreadAnswersDoNotStopOthersOfARealEnvoy(t *testing.T) {
	w := newWorld(t)
	app, at := serveFlood(t, nil)
	w.service("app", routes.H2C, at)
	w.object("app", "app", "", nil)
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), nil))
	client := oneConnection(t)
	for range 8 {
		if err := begin(t, client, address, "app.example.com", "/endless", nil); err != nil {
			t.Fatal(err)
		}
	}
	settled(t, app.sent.Load)
	echoes(t, client, address, "app.example.com")
}

// Requests whose bodies an application does not read do not stop the others on the
// client's connection.
func TestUnreadUploadsDoNotStopOthersOfARealEnvoy(t *testing.T) {
	for name, protocol := range map[string]routes.Protocol{"http/1.1": routes.HTTP1, "h2c": routes.H2C} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, at := serveFlood(t, nil)
			w.service("app", protocol, at)
			w.object("app", "app", "", nil)
			address := startEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), nil))
			client := oneConnection(t)
			var taken atomic.Int64
			for range 16 {
				if err := begin(t, client, address, "app.example.com", "/unread", &zeros{left: 1 << 40, taken: &taken}); err != nil {
					t.Fatal(err)
				}
			}
			settled(t, taken.Load)
			echoes(t, client, address, "app.example.com")
		})
	}
}
