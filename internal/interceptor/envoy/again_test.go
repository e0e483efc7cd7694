package envoy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// keptConnections is how many idle connections a proxy has to the application before a
// request on which the application closes its connection.
const keptConnections = 4

// breakingApp is an application that closes connections in the middle of a request. It
// counts the requests that it got, by method and path.
//
//	/ok      it answers
//	/meet    it answers once keptConnections requests for it have arrived
//	/once…   it closes the connection on the first request, and answers the others
//	/reset…  as /once, by a TCP reset
//	/never…  it closes the connection on each request
//	/byte…   it closes the connection after the first byte of an answer
//	/part…   it closes the connection after the header and a part of the body
//	/hang…   it does not answer
type breakingApp struct {
	address netip.AddrPort
	over    chan struct{}

	mu  sync.Mutex
	got map[string]int
	met chan struct{}
}

func newBreakingApp(t *testing.T) *breakingApp {
	t.Helper()
	a := &breakingApp{over: make(chan struct{}), got: make(map[string]int), met: make(chan struct{})}
	a.address = accept(t, a.serve)
	t.Cleanup(func() { close(a.over) })
	return a
}

// accept serves each connection to the address that it returns, until the test is over.
func accept(t *testing.T, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// arrived counts a request, and returns how many with its method and path came before.
func (a *breakingApp) arrived(method, path string) (before int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before = a.got[method+" "+path]
	a.got[method+" "+path]++
	if path == "/meet" && a.got["GET /meet"]%keptConnections == 0 {
		close(a.met)
		a.met = make(chan struct{})
	}
	return before
}

func (a *breakingApp) count(method, path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.got[method+" "+path]
}

func (a *breakingApp) meeting() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.met
}

func (a *breakingApp) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	reader := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		path, met := r.URL.Path, a.meeting()
		before := a.arrived(r.Method, path)
		switch {
		case path == "/meet":
			select {
			case <-met:
			case <-a.over:
			}
		case strings.HasPrefix(path, "/once") && before == 0, strings.HasPrefix(path, "/never"):
			return
		case strings.HasPrefix(path, "/reset") && before == 0:
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		case strings.HasPrefix(path, "/byte"):
			_, _ = io.WriteString(c, "H")
			return
		case strings.HasPrefix(path, "/part"):
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
			return
		case strings.HasPrefix(path, "/hang"):
			<-a.over
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// keepConnections makes a proxy open keptConnections connections to the application and
// keep them.
func (a *breakingApp) keepConnections(t *testing.T, address string) {
	t.Helper()
	var all sync.WaitGroup
	for range keptConnections {
		all.Go(func() {
			if got := exchangeRaw(t, address, "GET /meet HTTP/1.1\r\nHost: app.example.com\r\n\r\n"); got.Code != "200" {
				t.Errorf("a request for a connection to keep is answered %v", got)
			}
		})
	}
	all.Wait()
}

// A request that is safe to repeat is sent once more when its connection is closed
// before a byte of its answer, and no other request is. This holds on kept connections,
// which may all be closed, and on a new one. Envoy can tell less: see doc.go.
func TestEnvoyAndTheEmbeddedProxyTryAgainAlike(t *testing.T) {
	app := newBreakingApp(t)
	w := newWorld(t)
	w.service("app", routes.HTTP1, app.address)
	w.object("app", "app", "", nil)
	table := w.table()
	both := map[string]string{
		"envoy":    startEnvoy(t, static(t, newTranslator(t, Options{}), table, nil)),
		"embedded": embedded(t, table),
	}
	const length, chunks = "Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	for _, tt := range []struct {
		method, path, rest string
		sent               int
		code               string
		sentByEnvoy        int // where it differs from sent
	}{
		{"GET", "/once", "\r\n", 2, "200", 0},
		{"HEAD", "/once", "\r\n", 2, "200", 0},
		{"OPTIONS", "/once", "\r\n", 2, "200", 0},
		{"GET", "/reset", "\r\n", 2, "200", 0},
		{"GET", "/once-length-0", "Content-Length: 0\r\n\r\n", 2, "200", 0},
		{"GET", "/once-upgrade", "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 2, "200", 0},
		{"GET", "/once-key", "Idempotency-Key: 1\r\n\r\n", 2, "200", 0},
		{"GET", "/never", "\r\n", 2, "refused", 0},
		{"HEAD", "/never", "\r\n", 2, "refused", 0},
		{"OPTIONS", "/never", "\r\n", 2, "refused", 0},
		{"GET", "/part", "\r\n", 1, "cut", 0},
		{"GET", "/byte", "\r\n", 1, "refused", 2},
		{"GET", "/never-chunks", chunks, 1, "refused", 2},
		{"GET", "/once-body", length, 1, "refused", 0},
		{"POST", "/once", "\r\n", 1, "refused", 0},
		{"POST", "/reset", "\r\n", 1, "refused", 0},
		{"POST", "/once-body", length, 1, "refused", 0},
		{"POST", "/once-chunks", chunks, 1, "refused", 0},
		{"POST", "/once-key", "Idempotency-Key: 1\r\n\r\n", 1, "refused", 0},
		{"POST", "/once-key-body", "X-Idempotency-Key: 1\r\n" + length, 1, "refused", 0},
		{"PUT", "/once-body", length, 1, "refused", 0},
		{"PATCH", "/once-body", length, 1, "refused", 0},
		{"DELETE", "/once", "\r\n", 1, "refused", 0},
		{"TRACE", "/once", "\r\n", 1, "refused", 0},
		{"PURGE", "/once", "\r\n", 1, "refused", 0},
		// No header of a client changes that.
		{"POST", "/once-orders", "X-Envoy-Retry-On: reset\r\nX-Envoy-Is-Timeout-Retry: false\r\n\r\n", 1, "refused", 0},
		{"GET", "/never-orders", "X-Envoy-Max-Retries: 5\r\nX-Envoy-Retry-On: reset\r\n\r\n", 2, "refused", 0},
	} {
		for kind, address := range both {
			for _, kept := range []bool{true, false} {
				path := fmt.Sprintf("%s-%s-%v", tt.path, kind, kept)
				t.Run(tt.method+path, func(t *testing.T) {
					if kept {
						app.keepConnections(t, address)
					}
					got := exchangeRaw(t, address, tt.method+" "+path+" HTTP/1.1\r\nHost: app.example.com\r\n"+tt.rest)
					want := tt.sent
					if kind == "envoy" && tt.sentByEnvoy > 0 {
						want = tt.sentByEnvoy
					}
					if sent := app.count(tt.method, path); sent != want || got.Code != tt.code {
						t.Errorf("the application got it %d times and the client %s; want %d times and %s", sent, got.Code, want, tt.code)
					}
				})
			}
		}
	}
}

// What h2cApp does with the first request. The others are answered.
const (
	refusesStream = "refuses the stream" // RST_STREAM with REFUSED_STREAM: it was not processed
	goesAway      = "goes away"          // GOAWAY: the stream was not processed; then it closes the connection
	resetsStream  = "resets the stream"  // RST_STREAM with INTERNAL_ERROR
	closesConn    = "closes the connection"
)

// h2cApp is like breakingApp, for HTTP/2, and for one request and its repetition.
type h2cApp struct {
	does string
	got  atomic.Int64
}

// Types of frames.
const (
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	framePing     = 6
	frameGoAway   = 7
)

func (a *h2cApp) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
		return
	}
	write := func(frame, flags byte, stream uint32, payload ...byte) {
		header := []byte{0, 0, byte(len(payload)), frame, flags}
		_, _ = c.Write(append(binary.BigEndian.AppendUint32(header, stream), payload...)) // the next read fails
	}
	write(frameSettings, 0, 0)
	for {
		var header [9]byte
		if _, err := io.ReadFull(c, header[:]); err != nil {
			return
		}
		payload := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		stream, acknowledged := binary.BigEndian.Uint32(header[5:]), header[4]&1 != 0
		switch frame := header[3]; {
		case (frame == frameSettings || frame == framePing) && !acknowledged:
			if frame == frameSettings {
				payload = nil
			}
			write(frame, 1, 0, payload...)
		case frame == frameHeaders && a.got.Add(1) > 1:
			write(frameHeaders, 5, stream, 0x88) // the whole answer: its status is 200
		case frame != frameHeaders:
		case a.does == refusesStream:
			write(frameReset, 0, stream, 0, 0, 0, 7)
		case a.does == resetsStream:
			write(frameReset, 0, stream, 0, 0, 0, 2)
		case a.does == goesAway:
			write(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) // no stream was processed
			return
		case a.does == closesConn:
			return
		}
	}
}

// The same in HTTP/2, where an application can say that it has not processed a request:
// then the request is sent again whatever its method is.
func TestEnvoyAndTheEmbeddedProxyTryAgainAlikeInHTTP2(t *testing.T) {
	w := newWorld(t)
	apps := make(map[string]*h2cApp)
	sent := map[string]map[string]int64{
		refusesStream: {"GET": 2, "POST": 2},
		goesAway:      {"GET": 2, "POST": 2},
		resetsStream:  {"GET": 2, "POST": 1},
		closesConn:    {"GET": 2, "POST": 1},
	}
	kinds := []string{"envoy", "embedded"}
	host := func(does, method, kind string) string {
		return strings.ToLower(strings.ReplaceAll(does+" "+method+" "+kind, " ", "-"))
	}
	for does, methods := range sent {
		for method := range methods {
			for _, kind := range kinds {
				app, name := &h2cApp{does: does}, host(does, method, kind)
				apps[name] = app
				w.service(name, routes.H2C, accept(t, app.serve))
				w.object(name, name, "", nil)
			}
		}
	}
	table := w.table()
	both := map[string]string{
		"envoy":    startEnvoy(t, static(t, newTranslator(t, Options{}), table, nil)),
		"embedded": embedded(t, table),
	}
	for does, methods := range sent {
		for method, want := range methods {
			for _, kind := range kinds {
				t.Run(method+", application "+does+", "+kind, func(t *testing.T) {
					name, code := host(does, method, kind), "200"
					if want == 1 {
						code = "refused"
					}
					got := exchangeRaw(t, both[kind], method+" / HTTP/1.1\r\nHost: "+name+".example.com\r\n\r\n")
					if n := apps[name].got.Load(); n != want || got.Code != code {
						t.Errorf("the application got it %d times and the client %s; want %d times and %s", n, got.Code, want, code)
					}
				})
			}
		}
	}
}

// A request that is sent again goes to another endpoint of the backend, if there is one:
// the endpoint that closed the connection may be shutting down.
func TestEnvoyAndTheEmbeddedProxyTryAgainElsewhere(t *testing.T) {
	apps := []*breakingApp{newBreakingApp(t), newBreakingApp(t)}
	w := newWorld(t)
	w.service("app", routes.HTTP1, apps[0].address, apps[1].address)
	w.object("app", "app", "", nil)
	table := w.table()
	for kind, address := range map[string]string{
		"envoy":    startEnvoy(t, static(t, newTranslator(t, Options{}), table, nil)),
		"embedded": embedded(t, table),
	} {
		for i := range 10 {
			path := fmt.Sprintf("/never-%s-%d", kind, i)
			exchangeRaw(t, address, "GET "+path+" HTTP/1.1\r\nHost: app.example.com\r\n\r\n")
			if a, b := apps[0].count("GET", path), apps[1].count("GET", path); a != 1 || b != 1 {
				t.Errorf("%s: one endpoint got it %d times and the other %d; want once each", kind, a, b)
			}
		}
	}
}

// Envoy's second try goes through the interceptor, which sends the request to the same
// Service, once. A request that the application did not answer in time is not sent again.
func TestEnvoyTriesAgainThroughTheEmbeddedProxy(t *testing.T) {
	app := newBreakingApp(t)
	w := newWorld(t)
	w.service("stable", routes.HTTP1, serve(t, says("stable")))
	w.service("canary", routes.HTTP1, app.address)
	w.object("app", "stable", "- {service: stable, weight: 1}\n- {service: canary, weight: 1}\n", func(o *httpv1alpha1.HTTPScaledObject) {
		o.Spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: ptr("500ms")}
	})
	table := w.table()
	address := handingOver(t, table, table)
	for _, tt := range []struct {
		method, path, rest string
		sent               int
		code               string
	}{
		{"GET", "/once", "\r\n", 2, "200"},
		{"HEAD", "/reset", "\r\n", 2, "200"},
		{"GET", "/never", "\r\n", 2, "refused"},
		{"GET", "/part", "\r\n", 1, "cut"},
		{"POST", "/once", "\r\n", 1, "refused"},
		{"GET", "/hang", "\r\n", 1, "refused"},
		{"POST", "/hang", "\r\n", 1, "refused"},
		{"GET", "/ok", "X-Envoy-Is-Timeout-Retry: true\r\n\r\n", 1, "200"},
	} {
		t.Run(tt.method+tt.path, func(t *testing.T) {
			// Envoy chooses at random: go on until three requests went to the canary.
			for turns, i := 0, 0; turns < 3; i++ {
				path := fmt.Sprintf("%s-%s-%d", tt.path, tt.method, i)
				got := exchangeRaw(t, address, tt.method+" "+path+" HTTP/1.1\r\nHost: app.example.com\r\n"+tt.rest)
				sent := app.count(tt.method, path)
				if sent == 0 && got.Code == "200" && i < 1000 {
					continue // the stable Service answered
				}
				turns++
				if sent != tt.sent || got.Code != tt.code {
					t.Fatalf("the application got it %d times and the client %s; want %d times and %s", sent, got.Code, tt.sent, tt.code)
				}
			}
		})
	}
}
