package serviceproxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// udpIdle is how long a UDP client keeps its endpoint without a packet.
const udpIdle = 30 * time.Second

type udpListener struct {
	log      *slog.Logger
	socket   *net.UDPConn
	backends atomic.Pointer[backends]
	count    atomic.Uint32

	mu      sync.Mutex
	clients map[netip.AddrPort]*net.UDPConn
	closed  bool
}

func listenUDP(ctx context.Context, address netip.AddrPort, b backends, log *slog.Logger) (*udpListener, error) {
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(address))
	if err != nil {
		return nil, err
	}
	l := &udpListener{log: log, socket: socket, clients: map[netip.AddrPort]*net.UDPConn{}}
	l.backends.Store(&b)
	go l.receive(ctx)
	return l, nil
}

func (l *udpListener) update(b backends) { l.backends.Store(&b) }

// close ends the conversations, too: without the socket no answer can be sent
// from the Service's address.
func (l *udpListener) close() {
	_ = l.socket.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, conn := range l.clients {
		_ = conn.Close()
	}
}

func (l *udpListener) receive(ctx context.Context) {
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	packet := make([]byte, 64<<10)
	for {
		n, client, err := l.socket.ReadFromUDPAddrPort(packet)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // An ICMP error of an earlier answer.
		}
		conn, err := l.endpointOf(client)
		if err != nil {
			l.log.Debug("udp", "client", client, "err", err)
			continue
		}
		_ = conn.SetReadDeadline(time.Now().Add(udpIdle))
		if _, err := conn.Write(packet[:n]); err != nil {
			l.log.Debug("udp", "client", client, "err", err)
		}
	}
}

func (l *udpListener) endpointOf(client netip.AddrPort) (*net.UDPConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, net.ErrClosed
	}
	if conn, ok := l.clients[client]; ok {
		return conn, nil
	}
	endpoint, err := l.backends.Load().choose(l.count.Add(1), client.Addr().Unmap())
	if err != nil {
		return nil, err
	}
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(endpoint))
	if err != nil {
		return nil, err
	}
	l.clients[client] = conn
	go l.answer(client, conn)
	return conn, nil
}

func (l *udpListener) answer(client netip.AddrPort, conn *net.UDPConn) {
	defer func() {
		l.mu.Lock()
		delete(l.clients, client)
		l.mu.Unlock()
		_ = conn.Close()
	}()
	packet := make([]byte, 64<<10)
	for {
		n, err := conn.Read(packet)
		if err != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(udpIdle))
		if _, err := l.socket.WriteToUDPAddrPort(packet[:n], client); err != nil {
			return
		}
	}
}
