package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// tunnel connects a client and an application that changed protocols, such as to
// WebSocket, until both directions have ended, or one of them fails.
func (x *exchange) tunnel(res *http.Response) {
	protocol := upgradeTo(res.Header)
	if protocol == "" || !strings.EqualFold(protocol, upgradeTo(x.in.Header)) {
		_ = res.Body.Close()
		refuse(x.w, x.in, http.StatusBadGateway, "the application changed to the protocol %s, which was not asked for", shown(res.Header.Get("Upgrade")))
		return
	}
	application, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		_ = res.Body.Close()
		refuse(x.w, x.in, http.StatusBadGateway, "the connection to the application cannot be used for another protocol")
		return
	}
	client, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		_ = application.Close()
		refuse(x.w, x.in, http.StatusBadGateway, "the connection cannot be used for another protocol")
		return
	}
	x.record.code, x.record.headerAt, x.record.upgraded = http.StatusSwitchingProtocols, time.Now(), true
	closeBoth := sync.OnceFunc(func() {
		_ = client.Close()
		_ = application.Close()
	})
	defer closeBoth()
	defer x.proxy.tunnels.add(closeBoth)()

	header := x.w.Header()
	copyEndToEnd(header, res.Header)
	header["Connection"], header["Upgrade"] = upgrade, []string{protocol}
	switched := &http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: header}
	if switched.Write(buffered) != nil || buffered.Flush() != nil {
		return
	}
	done := make(chan error, 2)
	go func() { done <- pump(application, buffered.Reader) }() // the server may have read ahead
	go func() { done <- pump(client, application) }()
	if <-done == nil {
		<-done // the other direction is still open
	}
	closeBoth() // which ends the other direction, too
}

// pump copies one direction until it ends, and then half-closes to.
func pump(to io.Writer, from io.Reader) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return io.EOF // without a half-close, the tunnel has to be closed
}

// closeWrite half-closes a connection, or closes it if it cannot be half-closed.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// tunnels has the upgraded connections, which the HTTP server does not track.
type tunnels struct {
	mu   sync.Mutex
	open map[*func()]struct{}
	none chan struct{} // not nil while drain waits; closed when no tunnel is open
}

// add notes a tunnel, which end closes; remove must be called when it is over.
func (t *tunnels) add(end func()) (remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = make(map[*func()]struct{})
	}
	t.open[&end] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.open, &end)
		if len(t.open) == 0 && t.none != nil {
			close(t.none)
			t.none = nil
		}
	}
}

// drain waits until no tunnel is open. When ctx ends before that, it closes the tunnels
// that are left, and returns the error of ctx.
func (t *tunnels) drain(ctx context.Context) error {
	t.mu.Lock()
	if len(t.open) == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.none == nil {
		t.none = make(chan struct{})
	}
	none := t.none
	t.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for end := range t.open {
		(*end)()
	}
	return ctx.Err()
}
