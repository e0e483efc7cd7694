package outbound

import (
	"bytes"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A server that goes away during an answer without a word is missed: a watch would otherwise
// go on for ever, and show nothing.
func TestRoundTripperMissesAServerThatIsGone(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	between := newRelay(t, server.Listener.Addr().String())
	client := New(Options{Hosts: hostsOf(t, "127.0.0.1"), Addresses: loopback})
	at := "https://" + between.address
	transport, err := client.RoundTripper(Request{URL: at, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}, "")
	if err != nil {
		t.Fatal(err)
	}
	pings := transport.(*originTransport).transport.HTTP2
	if all := pings.SendPingTimeout + pings.PingTimeout; all < time.Second || all > 30*time.Second {
		t.Errorf("a server that is gone is missed after %s, want 30s at most", all)
	}
	pings.SendPingTimeout, pings.PingTimeout = 50*time.Millisecond, 2*time.Second
	request, err := http.NewRequestWithContext(within(t), http.MethodGet, at+"/?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(answer.Body)
		ended <- err
	}()
	for before := between.passed.Load(); between.passed.Load() < before+10; time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("the answer of a server that answers pings has ended: %v", err)
		default:
		}
	}
	between.frozen.Store(true)
	if err := <-ended; err == nil || request.Context().Err() != nil {
		t.Errorf("the answer ended with %v", err)
	}
}

// A stream has no end, so that its lines are bounded instead.
func TestRoundTripperBoundsTheLinesOfAStream(t *testing.T) {
	piece := bytes.Repeat([]byte("x"), 1<<20)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 80 {
			_, _ = w.Write(piece)
			if r.URL.Path == "/lines" {
				_, _ = w.Write([]byte("\n"))
			}
		}
	}))
	t.Cleanup(server.Close)
	client := New(Options{Hosts: hostsOf(t, "127.0.0.1"), Addresses: loopback})
	transport, err := client.RoundTripper(Request{URL: server.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}, "")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/lines?watch=true": "", "/?watch=true": "want 8 MiB at most", "/lines": "want 64 MiB at most",
	} {
		request, err := http.NewRequestWithContext(within(t), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// relay passes on what goes to an address and back.
type relay struct {
	address string
	// passed counts what was passed on. If frozen is true, nothing is, and no connection ends.
	passed atomic.Int32
	frozen atomic.Bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r := &relay{address: listener.Addr().String()}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				return
			}
			go r.pass(in, out)
			go r.pass(out, in)
		}
	}()
	return r
}

func (r *relay) pass(from, to net.Conn) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if r.frozen.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
		r.passed.Add(1)
	}
}
