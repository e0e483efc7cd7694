package proxy

import (
	"net/http"
	"sync"
	"time"
)

// limitSendTime ends the answer to an HTTP/2 client that takes none of it. The client may
// read its connection and yet leave the stream's flow-control window closed, which the
// kernel does not see; in HTTP/1.1 the TCP user timeout of the connection is enough. A
// write deadline alone would not do: at the deadline, Go ends a stream even if nothing
// waits to be sent.
func (p *Proxy) limitSendTime(next http.Handler) http.Handler {
	timeout := p.settings.SendTimeout
	if timeout == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		limited := &sendTimeWriter{ResponseWriter: w, timeout: timeout}
		defer func() { limited.end(r.Context().Err() == nil) }()
		next.ServeHTTP(limited, r)
	})
}

// sendTimeWriter ends a write that takes longer than the timeout.
type sendTimeWriter struct {
	http.ResponseWriter
	timeout time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil before the first write, and once the answer is over
	began time.Time   // start of the write under way; zero while there is none
}

// Write is part of http.ResponseWriter.
func (s *sendTimeWriter) Write(data []byte) (int, error) {
	s.begin()
	defer s.wrote()
	return s.ResponseWriter.Write(data)
}

// FlushError is for http.ResponseController.
func (s *sendTimeWriter) FlushError() error {
	s.begin()
	defer s.wrote()
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (s *sendTimeWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *sendTimeWriter) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = time.Now()
	if s.timer == nil {
		s.timer = time.AfterFunc(s.timeout, s.check)
	}
}

func (s *sendTimeWriter) wrote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = time.Time{}
}

// check ends the answer if a write has taken too long, and otherwise checks again when
// that is next possible.
func (s *sendTimeWriter) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		return // the answer is over
	}
	left := s.timeout
	if !s.began.IsZero() {
		left -= time.Since(s.began)
	}
	if left > 0 {
		s.timer.Reset(left)
		return
	}
	// A deadline that has passed ends the write at once.
	_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(s.began)
}

// end stops the timer: the server may reuse the memory of the writer for another
// request. If the answer goes on, its client has the timeout once more for the rest,
// which the server sends after the handlers.
func (s *sendTimeWriter) end(goesOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if goesOn { // a writer that does not support deadlines goes without
		_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(time.Now().Add(s.timeout))
	}
}
