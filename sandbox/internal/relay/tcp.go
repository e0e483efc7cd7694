// Package relay joins two TCP connections.
package relay

import (
	"io"
	"net"
	"sync"
)

// Join copies both ways until both sides are done, and closes both connections.
// A half-close of one side is passed on, and the other side may go on sending. An
// error on one connection resets both.
func Join(a, b *net.TCPConn) {
	var wg sync.WaitGroup
	forward := func(to, from *net.TCPConn) {
		if _, err := io.Copy(to, from); err != nil {
			Reset(to)
			Reset(from)
			return
		}
		_ = to.CloseWrite()
	}
	wg.Go(func() { forward(a, b) })
	forward(b, a)
	wg.Wait()
	_ = a.Close()
	_ = b.Close()
}

// Reset closes with a RST, which tells the peer that its data did not arrive.
func Reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
