package proxyworld

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// Application is an application behind the proxies. It knows no more of HTTP than they need:
// it answers each request, which has no body, with its name. So it takes less of the
// processor that it shares with the clients than a proxy takes of its own.
type Application struct {
	requests atomic.Int64
}

func listen(name string, address netip.AddrPort) (*Application, error) {
	listener, err := net.Listen("tcp", address.String())
	if err != nil {
		return nil, err
	}
	return serve(name, listener), nil
}

func serve(name string, listener net.Listener) *Application {
	a := &Application{}
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(name), name)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				gauge.Say("the application %s: %v", name, err)
				return
			}
			go a.answer(connection, answer)
		}
	}()
	return a
}

func (a *Application) answer(connection net.Conn, answer []byte) {
	defer func() { _ = connection.Close() }()
	buffer, filled := make([]byte, 16<<10), 0
	for {
		n, err := connection.Read(buffer[filled:])
		if err != nil {
			return // the proxy has closed it
		}
		if filled += n; !bytes.HasSuffix(buffer[:filled], []byte("\r\n\r\n")) {
			continue
		}
		filled = 0
		a.requests.Add(1)
		if _, err := connection.Write(answer); err != nil {
			return
		}
	}
}

// spent is what has been spent so far.
type spent struct {
	proxy, own     time.Duration
	stable, canary int64
}

func (w *World) spent(proxy *gauge.Process) (s spent, err error) {
	s.stable, s.canary = w.Stable.requests.Load(), w.Canary.requests.Load()
	if proxy != nil {
		if s.proxy, err = proxy.CPU(); err != nil {
			return s, err
		}
	}
	var usage unix.Rusage
	err = unix.Getrusage(unix.RUSAGE_SELF, &usage)
	s.own = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return s, err
}
