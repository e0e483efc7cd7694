// Package freeport gives the processes that a test starts ports that nothing else takes
// before they listen.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The ports that are given out are below the kernel's ephemeral ports, of which an outgoing
// connection could take one.
const first, last, blockSize = 10000, 30000, 100

// reserved is the block of ports of this process. The process listens on the first port of
// each of its blocks as long as it lives, so that no other gives out the rest of them.
var reserved struct {
	sync.Mutex
	locks     []net.Listener
	next, end int
}

// Set sets each of wanted to a port on which nothing listens, and which no other call
// returns, in this process or in another one that runs meanwhile.
func Set(t testing.TB, wanted ...*uint16) {
	t.Helper()
	for _, port := range wanted {
		*port = Get(t)
	}
}

// Get returns a port as Set does.
func Get(t testing.TB) uint16 {
	t.Helper()
	reserved.Lock()
	defer reserved.Unlock()
	for range 1000 {
		if reserved.next == reserved.end {
			reserve(t)
		}
		port := reserved.next
		reserved.next++
		if isFree(port) {
			return uint16(port)
		}
	}
	t.Fatalf("there are no free ports between %d and %d", first, last)
	return 0
}

// isFree tells whether nothing listens on a port, on the loopback address or on all addresses.
// It connects, as a listener that was opened and closed held the port a moment longer while
// other processes were started. A listener that does not answer has the port, too.
func isFree(port int) bool {
	c, err := net.DialTimeout("tcp", fmt.Sprint("127.0.0.1:", port), time.Second)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// reserve takes another block.
func reserve(t testing.TB) {
	t.Helper()
	for range 1000 {
		block := first + blockSize*rand.IntN((last-first)/blockSize)
		if l, err := net.Listen("tcp", fmt.Sprint(":", block)); err == nil {
			reserved.locks = append(reserved.locks, l)
			reserved.next, reserved.end = block+1, block+blockSize
			return
		}
	}
	t.Fatalf("there is no free block of ports between %d and %d", first, last)
}
