package xds

import (
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// withdrawalTime is the time over which the streams end after Withdraw, so that the
	// Envoys do not all connect to another interceptor at once.
	withdrawalTime = 5 * time.Second
	// withdrawalCut is when connections are cut after Withdraw: those of Envoys that do
	// not answer.
	withdrawalCut = 2 * withdrawalTime
)

var errWithdrawn = status.Error(codes.Unavailable, "this interceptor has lost the API server, and another one sees it")

// withdrawal is closed when Envoys are sent away, and resumed when they are welcome again.
type withdrawal struct {
	begun, resumed chan struct{}
}

func newWithdrawal() *withdrawal {
	return &withdrawal{begun: make(chan struct{}), resumed: make(chan struct{})}
}

// Withdraw sends the Envoys to other interceptors, until Resume: it closes the port, sends
// GOAWAY on all connections, so that none takes another stream, and ends the streams over
// some seconds. Streams of load reports stay until they are old, or report an object that is
// not known here: other reports are as good here, and those of a stream that ends may be
// lost. It returns at once.
func (s *Server) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdrawal.hasBegun() {
		return
	}
	w := s.withdrawal
	close(w.begun)
	s.metrics.sentAway.Add(float64(len(s.streams)))
	for _, server := range s.servers {
		go s.drain(server)
	}
	s.draining, s.servers = append(s.draining, s.servers...), nil
	time.AfterFunc(withdrawalCut, func() { s.cut(w) })
}

// drain sends GOAWAY on all connections of a server, and waits until they have ended.
func (s *Server) drain(server *grpc.Server) {
	server.GracefulStop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = slices.DeleteFunc(s.draining, func(other *grpc.Server) bool { return other == server })
}

// cut closes the connections of streams that a withdrawal has not ended.
func (s *Server) cut(w *withdrawal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		if st.until == w {
			s.connections.close(st.peer)
		}
	}
}

// Resume ends a withdrawal: the port is opened again.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdrawal.hasBegun() {
		close(s.withdrawal.resumed)
		s.withdrawal = newWithdrawal()
	}
}

// isWithdrawn tells whether it is between Withdraw and Resume.
func (s *Server) isWithdrawn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withdrawal.hasBegun()
}

// hasBegun tells whether a withdrawal has begun.
func (w *withdrawal) hasBegun() bool {
	select {
	case <-w.begun:
		return true
	default:
		return false
	}
}

// await returns the listener to go on with after a withdrawal; nil after Shutdown.
func (s *Server) await(w *withdrawal, open func() (net.Listener, error)) (net.Listener, error) {
	select {
	case <-s.closing:
		return nil, nil
	case <-w.resumed:
		return open()
	}
}

// withdraw gives the stream a random end within withdrawalTime.
func (st *stream) withdraw() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.withdrawn = nil // a channel that is closed is always ready
	st.reason = errWithdrawn
	st.ends = time.Now().Add(rand.N(withdrawalTime))
}
