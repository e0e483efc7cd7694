package proxy

import (
	"net"
	"testing"
	"time"
)

// What a client does not read waits in the kernel, where it counts as memory of the pod.
func TestUnreadBytesOfABoundedPortAreFew(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = newWorld(t).proxy.BoundPort("admin", "admin-max-connections", 1, 1).Listener(l)
	defer func() { _ = l.Close() }()
	client, err := (&net.Dialer{Timeout: patience}).Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if err := client.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	if n, err := conn.Write(make([]byte, 2*most)); err == nil || n > most {
		t.Errorf("%d bytes wait for a client that does not read, want %d at most", n, most)
	}
}
