package serviceproxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/relay"
)

// dialTimeout bounds the attempt to reach an endpoint; all endpoints are on this
// machine. The kernel retransmits a lost SYN after one second and after three.
const dialTimeout = 5 * time.Second

// listen opens the listener of a frontend. The end of ctx closes its connections.
func listen(ctx context.Context, f frontend, b backends, log *slog.Logger) (listener, error) {
	if f.protocol == corev1.ProtocolUDP {
		return listenUDP(ctx, f.address, b, log)
	}
	return listenTCP(ctx, f.address, b, log)
}

type tcpListener struct {
	log      *slog.Logger
	socket   net.Listener
	backends atomic.Pointer[backends]
	count    atomic.Uint32
}

func listenTCP(ctx context.Context, address netip.AddrPort, b backends, log *slog.Logger) (*tcpListener, error) {
	socket, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(address))
	if err != nil {
		return nil, err
	}
	l := &tcpListener{log: log, socket: socket}
	l.backends.Store(&b)
	go l.accept(ctx)
	return l, nil
}

func (l *tcpListener) update(b backends) { l.backends.Store(&b) }

func (l *tcpListener) close() { _ = l.socket.Close() }

func (l *tcpListener) accept(ctx context.Context) {
	for {
		conn, err := l.socket.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of file descriptors, for example: some may be released soon.
			l.log.Warn("accept", "err", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		go l.serve(ctx, conn.(*net.TCPConn))
	}
}

// serve connects a client to one endpoint. As with kube-proxy, no other endpoint
// is tried when that one refuses: the client is told, here by a reset.
func (l *tcpListener) serve(ctx context.Context, client *net.TCPConn) {
	stopClient := context.AfterFunc(ctx, func() { relay.Reset(client) })
	defer stopClient()
	endpoint, err := l.dial(ctx, client)
	if err != nil {
		l.log.Debug("the endpoint cannot be reached", "err", err)
		relay.Reset(client)
		return
	}
	stopEndpoint := context.AfterFunc(ctx, func() { relay.Reset(endpoint) })
	defer stopEndpoint()
	relay.Join(client, endpoint)
}

func (l *tcpListener) dial(ctx context.Context, client *net.TCPConn) (*net.TCPConn, error) {
	address := client.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	endpoint, err := l.backends.Load().choose(l.count.Add(1), address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp4", endpoint.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}
