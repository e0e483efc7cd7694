package regions

import (
	"net"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/relay"
)

// relayed is an address of a test's own for an API server, whose certificate is valid there,
// too. Its connections can be cut, so that a watch begins anew: an API server asks for the
// token of a watch only when that begins. While it is stopped, the API server is away for those
// that come by this address.
type relayed struct {
	address string

	mu          sync.Mutex
	connections []*net.TCPConn
	stopped     bool
}

func newRelay(t *testing.T, to string) *relayed {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(cluster.NodeIP.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	r := &relayed{address: listener.Addr().String()}
	var joined sync.WaitGroup
	joined.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				relay.Reset(conn.(*net.TCPConn))
				continue
			}
			a, b := conn.(*net.TCPConn), there.(*net.TCPConn)
			if !r.take(a) {
				relay.Reset(a)
				relay.Reset(b)
				continue
			}
			joined.Go(func() { relay.Join(a, b) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.stop()
		joined.Wait()
	})
	return r
}

// take keeps a connection, to be cut. It returns false while the relay is stopped.
func (r *relayed) take(conn *net.TCPConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.connections = append(r.connections, conn)
	}
	return !r.stopped
}

// stop ends all connections, and takes no new ones until start.
func (r *relayed) stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.cut()
}

func (r *relayed) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = false
}

// cut ends the connections that there are; new ones are taken.
func (r *relayed) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.connections {
		relay.Reset(conn)
	}
	r.connections = nil
}
