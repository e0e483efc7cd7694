package proxy

import (
	"sync"
	"time"
)

// startWait is how long connections of clients wait for the first table.
const startWait = 10 * time.Second

// start leaves new connections in the kernel's backlog, which is bounded, while an
// interceptor that has just started reads its routes. A client that is sent to this
// replica anyway is then served a moment later, and not refused.
type start struct {
	wait  time.Duration
	begin sync.Once
	over  chan struct{}
	end   func() // may be called again
}

func newStart() *start {
	s := &start{wait: startWait, over: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.over) })
	return s
}

// block waits for a table or a drain, for at most the wait time after the first call of
// block.
func (s *start) block() {
	s.begin.Do(func() { time.AfterFunc(s.wait, s.end) })
	<-s.over
}
