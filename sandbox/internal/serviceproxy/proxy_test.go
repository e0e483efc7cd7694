package serviceproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// echoAll answers each TCP connection, once the client has closed its side, with
// name and everything it sent.
func echoAll(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				data, _ := io.ReadAll(conn)
				_, _ = fmt.Fprintf(conn, "%s: %s", name, data)
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// freePort finds a port that nothing listens on.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func newProxy(t *testing.T) (*Proxy, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &Proxy{log: slog.New(slog.DiscardHandler), state: map[string]map[frontend]listener{}, said: map[string]string{},
		queue: workqueue.NewTyped[string](), events: record.NewFakeRecorder(100)}, ctx
}

func ask(t *testing.T, address netip.AddrPort, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp4", address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestTCPHalfCloseAndTurns(t *testing.T) {
	p, ctx := newProxy(t)
	a, b, front := echoAll(t, "a"), echoAll(t, "b"), freePort(t)
	f := frontend{corev1.ProtocolTCP, front}
	p.apply(ctx, "demo/web", map[frontend]backends{f: {endpoints: []netip.AddrPort{a, b}}})
	got := map[string]int{}
	for range 10 {
		got[ask(t, front, "hello")]++
	}
	if got["a: hello"] != 5 || got["b: hello"] != 5 {
		t.Errorf("answers %v, want five of each", got)
	}
}

// As with kube-proxy, a connection that an endpoint refuses is not retried at
// another endpoint.
func TestTCPResetsWhatTheEndpointRefuses(t *testing.T) {
	p, ctx := newProxy(t)
	alive, dead, front := echoAll(t, "alive"), freePort(t), freePort(t)
	p.apply(ctx, "demo/web", map[frontend]backends{{corev1.ProtocolTCP, front}: {endpoints: []netip.AddrPort{dead, alive}}})
	// The reset can come at any step, while connecting, too.
	try := func() (string, error) {
		conn, err := net.Dial("tcp4", front.String())
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
			return "", err
		}
		answer, err := io.ReadAll(conn)
		return string(answer), err
	}
	answered, refused := 0, 0
	for range 10 {
		switch answer, err := try(); {
		case err == nil && answer == "alive: ":
			answered++
		case errors.Is(err, syscall.ECONNRESET):
			refused++
		default:
			t.Errorf("answer %q, %v; want one of the live endpoint or a reset", answer, err)
		}
	}
	if answered != 5 || refused != 5 {
		t.Errorf("%d connections were answered and %d reset, want five of each", answered, refused)
	}
}

func TestTCPRefusesWithoutEndpoints(t *testing.T) {
	p, ctx := newProxy(t)
	f := frontend{corev1.ProtocolTCP, freePort(t)}
	p.apply(ctx, "demo/web", map[frontend]backends{f: {endpoints: []netip.AddrPort{echoAll(t, "a")}}})
	ask(t, f.address, "x")
	p.apply(ctx, "demo/web", map[frontend]backends{f: {}})
	if conn, err := net.Dial("tcp4", f.address.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without endpoints: %v, %v; want connection refused", conn, err)
	}
	if len(p.state) != 0 {
		t.Errorf("state left: %v", p.state)
	}
}

func TestTCPConnectionOutlivesItsEndpointInTheService(t *testing.T) {
	p, ctx := newProxy(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(conn, conn)
	}()
	f := frontend{corev1.ProtocolTCP, freePort(t)}
	p.apply(ctx, "demo/web", map[frontend]backends{f: {endpoints: []netip.AddrPort{l.Addr().(*net.TCPAddr).AddrPort()}}})
	conn, err := net.Dial("tcp4", f.address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	for i := range 3 {
		if _, err := fmt.Fprintf(conn, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadString('\n')
		if err != nil || line != fmt.Sprintf("line %d\n", i) {
			t.Fatalf("answer %q, %v", line, err)
		}
		// After the first line the endpoint goes, after the second the Service.
		p.apply(ctx, "demo/web", []map[frontend]backends{{f: {}}, {}, {}}[i])
	}
}

func TestUDP(t *testing.T) {
	p, ctx := newProxy(t)
	server, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		packet := make([]byte, 100)
		for {
			n, client, err := server.ReadFromUDPAddrPort(packet)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(append([]byte("re: "), packet[:n]...), client)
		}
	}()
	f := frontend{corev1.ProtocolUDP, freePort(t)}
	p.apply(ctx, "demo/dns", map[frontend]backends{f: {endpoints: []netip.AddrPort{server.LocalAddr().(*net.UDPAddr).AddrPort()}}})
	conn, err := net.Dial("udp4", f.address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 100)
		n, err := conn.Read(answer)
		if err != nil || string(answer[:n]) != "re: "+text {
			t.Errorf("answer %q, %v", answer[:n], err)
		}
	}
}

// If a Service cannot be served as it asks, one Event says why.
func TestServiceThatCannotBeServedSaysSo(t *testing.T) {
	p, ctx := newProxy(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address := taken.Addr().(*net.TCPAddr).AddrPort()
	s := service(corev1.ServicePort{Port: 80}, corev1.ServicePort{Port: 90, Protocol: corev1.ProtocolSCTP})
	s.Spec.ExternalIPs = []string{"192.0.2.1"}
	for range 2 {
		faults := p.apply(ctx, "demo/web", map[frontend]backends{{corev1.ProtocolTCP, address}: {endpoints: []netip.AddrPort{echoAll(t, "a")}}})
		p.report("demo/web", s, append(faults, unsupported(s)...))
	}
	want := "Warning ServiceProxy cannot listen on TCP " + address.String() + ": address already in use; trying again; " +
		"spec.externalIPs 192.0.2.1: the sandbox carries no connections to them; use a Service of type LoadBalancer; " +
		"spec.ports: port 90: the sandbox carries TCP and UDP, not SCTP"
	events := p.events.(*record.FakeRecorder).Events
	if got := <-events; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
	select {
	case again := <-events:
		t.Errorf("the same faults gave a second event, %q", again)
	default:
	}
}
