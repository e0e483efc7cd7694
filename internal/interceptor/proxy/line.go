package proxy

import (
	"net"
	"runtime"
	"slices"
	"sync"
)

// Go's network poller makes goroutines ready in the reverse of the order in which
// their connections became readable (gList in netpollready). A processor with more
// to do than it can finds at each look at the network all that came during the
// round before; who came first then waits for nearly two rounds, and who came last
// for none: of all requests a twentieth takes twice as long as the mean.

// line is where those wait who have read something, in the order in which one look
// at the network made them ready. The first of them leads: it lets the others go on
// in the order in which they came, when all are there.
//
// It is for one processor. Several wake each other's goroutines for it, which takes
// more than it gives.
type line struct {
	mu   sync.Mutex
	led  bool
	rest []chan struct{} // those behind the leader
}

// newLine returns nil, which is no line at all, for more than one processor.
func newLine(processors int) *line {
	if processors > 1 {
		return nil
	}
	return new(line)
}

// of returns a connection that waits for its turn whenever it has read something.
func (l *line) of(c net.Conn) net.Conn {
	if l == nil {
		return c
	}
	return &turnConn{Conn: c, line: l, turn: make(chan struct{}, 1)}
}

// mostLooks bounds how often a leader looks whether more have come. The scheduler
// gets back to it after sixty others at the latest, and a look at the network makes
// 128 ready at most.
const mostLooks = 4

// take waits until it is one's turn, which is when those have gone on who came
// before. What is sent to turn says so.
func (l *line) take(turn chan struct{}) {
	if !l.lead(turn) {
		<-turn
		return
	}
	seen := 0
	for range mostLooks {
		runtime.Gosched()
		n := l.length()
		if n == seen {
			break
		}
		seen = n
	}
	others := l.dissolve()
	if len(others) == 0 {
		return
	}
	// The scheduler runs next whom it is told of last.
	for _, turn := range others[1:] {
		turn <- struct{}{}
	}
	others[0] <- struct{}{}
	runtime.Gosched() // who was made ready first came last
}

// lead puts one into the line and tells whether it leads it.
func (l *line) lead(turn chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.led {
		l.rest = append(l.rest, turn)
		return false
	}
	l.led = true
	return true
}

func (l *line) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rest)
}

// dissolve ends the line: who comes next leads another. It returns those who were
// behind the leader, in the order in which they are to go on.
func (l *line) dissolve() []chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.led = false
	if len(l.rest) == 0 {
		return nil
	}
	others := l.rest
	l.rest = make([]chan struct{}, 0, cap(others))
	slices.Reverse(others)
	return others
}

// turnConn is a connection that waits for its turn when it has read something.
type turnConn struct {
	net.Conn
	line *line
	turn chan struct{}
}

// Read is part of net.Conn.
func (c *turnConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	// A single byte is what the server reads while it answers, to see whether the
	// client is there still; large reads are of bodies, which go on as they come.
	if n > 0 && len(into) > 1 && len(into) <= largestHeaderRead {
		c.line.take(c.turn)
	}
	return n, err
}

// CloseWrite is what a tunnel ends one direction by.
func (c *turnConn) CloseWrite() error { return closeWrite(c.Conn) }
