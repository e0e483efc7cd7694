//go:build !race

package proxy

// With the race detector in it, the scheduler keeps no order: it shuffles.

import (
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"
)

// Connections that became readable one after the other, and are all found so at
// once, are served in that order. Where the last comes in is left to the scheduler.
func TestLineKeepsOrder(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	const connections = 32
	l := newLine(1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	served := make(chan int, connections)
	var clients []net.Conn
	for i := range connections {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		clients = append(clients, client)
		c, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		go func() {
			c, buffer := l.of(c), make([]byte, 16)
			for {
				if _, err := c.Read(buffer); err != nil {
					return
				}
				served <- i
			}
		}()
	}
	const last = connections - 1
	expected := make([]int, last)
	for i := range expected {
		expected[i] = i
	}
	// The scheduler may look at the network while not all have written yet.
	var order []int
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		for _, c := range clients {
			if _, err := io.WriteString(c, "x"); err != nil {
				t.Fatal(err)
			}
		}
		order = order[:0]
		for range connections {
			if i := <-served; i != last {
				order = append(order, i)
			}
		}
		if slices.Equal(order, expected) {
			return
		}
	}
	t.Errorf("connections are served in the order %v; expected that in which they became readable", order)
}
