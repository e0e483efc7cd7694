package proxy

import (
	"sync"
	"time"
)

// startWait is how long connections of clients wait for the first table.
const startWait = 10 * time.Second

// start leaves new connections in the kernel's backlog, which is bounded, while an
// interceptor that has just started reads its routes. A client that is still sent to
// its address is so served a moment later, and not refused.
type start struct {
	wait  time.Duration
	begin sync.Once
	over  chan struct{}
	end   func() // once or more often
}

func newStart() *start {
	s := &start{wait: startWait, over: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.over) })
	return s
}

// hold waits until there is a table, a drain, or the time is over, which begins with
// the first call.
func (s *start) hold() {
	s.begin.Do(func() { time.AfterFunc(s.wait, s.end) })
	<-s.over
}
