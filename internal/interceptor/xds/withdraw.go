package xds

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

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
// some seconds. It returns at once.
func (s *Server) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdrawn() {
		return
	}
	close(s.withdrawal.begun)
	s.metrics.sentAway.Add(float64(len(s.streams)))
	servers := s.servers
	s.servers = nil
	ctx, cancel := context.WithTimeout(context.Background(), withdrawalCut)
	go func() {
		defer cancel()
		stop(ctx, servers)
	}()
}

// Resume ends a withdrawal: the port is opened again, once all streams have ended.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdrawn() {
		close(s.withdrawal.resumed)
		s.withdrawal = newWithdrawal()
	}
}

// withdrawn is called with mu held.
func (s *Server) withdrawn() bool {
	select {
	case <-s.withdrawal.begun:
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
