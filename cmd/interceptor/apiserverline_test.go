package main

import (
	"net"
	"sync"
	"testing"
)

// condition is what a line does with connections.
type condition int

const (
	passes condition = iota
	// refuses closes all connections.
	refuses
	// silent keeps all connections, takes new ones, and passes nothing on.
	silent
)

// line is a network between an interceptor and the API server, which a test can break.
type line struct {
	t      *testing.T
	server string

	mu      sync.Mutex
	is      condition
	changed chan struct{} // closed and replaced by set
	conns   map[net.Conn]struct{}
}

// newLine returns a line to the server that listens at an address, and its own address.
func newLine(t *testing.T, server string) (l *line, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = &line{t: t, server: server, changed: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(refuses)
	})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go l.forward(c)
		}
	}()
	return l, listener.Addr().String()
}

func (l *line) set(is condition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is = is
	close(l.changed)
	l.changed = make(chan struct{})
	if is == refuses {
		for c := range l.conns {
			_ = c.Close()
		}
		clear(l.conns)
	}
}

// keep adds connections unless the line refuses them.
func (l *line) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.is == refuses {
			_ = c.Close()
		} else {
			l.conns[c] = struct{}{}
		}
	}
	return l.is != refuses
}

func (l *line) forward(from net.Conn) {
	if !l.keep(from) {
		return
	}
	to, err := net.Dial("tcp", l.server)
	if err != nil {
		_ = from.Close()
		return
	}
	if !l.keep(to) {
		return
	}
	go l.copy(from, to)
	l.copy(to, from)
}

// copy passes on what comes, once the line is not silent.
func (l *line) copy(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.pass()
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (l *line) pass() {
	for {
		l.mu.Lock()
		is, changed := l.is, l.changed
		l.mu.Unlock()
		if is != silent {
			return
		}
		<-changed
	}
}
