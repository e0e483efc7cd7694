package loadgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Application is one of the applications behind the proxies.
type Application struct {
	// Address is where it listens.
	Address netip.AddrPort
	// Answer is the body of all its answers. Those of two applications differ
	// in their first bytes.
	Answer string
}

// Serve runs the applications, and a Round for each line of in, which is the Round in
// JSON. It writes the Result to out as a line of JSON. It returns when in ends.
func Serve(in *os.File, out io.Writer, applications []Application) error {
	// The caller has chosen a processor for the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, err := newLoop()
	if err != nil {
		return err
	}
	defer l.close()
	for _, application := range applications {
		if err := l.listen(application); err != nil {
			return fmt.Errorf("the application on %s: %w", application.Address, err)
		}
	}
	commands := &connection{fd: int(in.Fd()), kind: command}
	if err := l.add(commands); err != nil {
		return err
	}
	for {
		if _, err := l.turn(-1); err != nil {
			return err
		}
		for {
			line, rest, whole := bytes.Cut(l.commands, []byte("\n"))
			if !whole {
				break
			}
			l.commands = rest
			var round Round
			if err := json.Unmarshal(line, &round); err != nil {
				return fmt.Errorf("a round cannot be read: %w", err)
			}
			result, err := l.run(round)
			if err != nil {
				result = &Result{Error: err.Error()}
			}
			if err := json.NewEncoder(out).Encode(result); err != nil {
				return err
			}
		}
		if l.ended {
			return nil
		}
	}
}

// loop is the state of the one thread.
type loop struct {
	epoll       int
	events      [256]unix.EpollEvent
	connections []*connection // by file descriptor
	round       *running      // nil between rounds
	commands    []byte        // not yet carried out
	ended       bool          // there will be no more commands
}

type kind uint8

const (
	command kind = iota
	listener
	application
	client
)

// connection is a file descriptor that the epoll waits for.
type connection struct {
	fd     int
	kind   kind
	answer []byte // of an application, or its listener
	sent   int64  // when a client has sent its request, in nanoseconds of the round
	fill   int
	buffer [4096]byte
}

func newLoop() (*loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &loop{epoll: epoll}, nil
}

func (l *loop) close() {
	for _, c := range l.connections {
		if c != nil && c.kind != command {
			_ = unix.Close(c.fd)
		}
	}
	_ = unix.Close(l.epoll)
}

func (l *loop) add(c *connection) error {
	for len(l.connections) <= c.fd {
		l.connections = append(l.connections, nil)
	}
	l.connections[c.fd] = c
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.fd)})
}

func (l *loop) drop(c *connection) {
	l.connections[c.fd] = nil
	_ = unix.Close(c.fd)
}

// turn waits for events, at most so many milliseconds (-1 for ever), and handles
// them. It returns how many there were.
func (l *loop) turn(milliseconds int) (int, error) {
	n, err := unix.EpollWait(l.epoll, l.events[:], milliseconds)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, event := range l.events[:n] {
		c := l.connections[event.Fd]
		if c == nil {
			continue // closed by an earlier event
		}
		switch c.kind {
		case command:
			err = l.readCommands(c)
		case listener:
			err = l.accept(c)
		case application:
			err = l.answer(c)
		case client:
			err = l.round.answered(c)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (l *loop) readCommands(c *connection) error {
	n, err := unix.Read(c.fd, c.buffer[:])
	if err != nil {
		return fmt.Errorf("reading commands: %w", err)
	}
	if n == 0 {
		l.ended = true
	}
	l.commands = append(l.commands, c.buffer[:n]...)
	return nil
}

func (l *loop) listen(a Application) error {
	fd, err := unix.Socket(family(a.Address), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, socketAddress(a.Address)),
		unix.Listen(fd, 1024),
	)
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(a.Answer), a.Answer)
	return l.add(&connection{fd: fd, kind: listener, answer: answer})
}

func (l *loop) accept(c *connection) error {
	for {
		fd, _, err := unix.Accept4(c.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR):
			return nil
		case err != nil:
			return fmt.Errorf("accepting: %w", err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return err
		}
		if err := l.add(&connection{fd: fd, kind: application, answer: c.answer}); err != nil {
			return err
		}
	}
}

var headEnd = []byte("\r\n\r\n")

// answer answers a request, which has a header and no body.
func (l *loop) answer(c *connection) error {
	n, err := unix.Read(c.fd, c.buffer[c.fill:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil || n <= 0 {
		l.drop(c) // the proxy does not need it any more
		return nil
	}
	c.fill += n
	if !bytes.HasSuffix(c.buffer[:c.fill], headEnd) {
		if c.fill == len(c.buffer) {
			return errors.New("a proxy sent a request that is not one of ours")
		}
		return nil
	}
	c.fill = 0
	if n, err := unix.Write(c.fd, c.answer); err != nil || n != len(c.answer) {
		l.drop(c)
	}
	return nil
}

func family(a netip.AddrPort) int {
	if a.Addr().Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func socketAddress(a netip.AddrPort) unix.Sockaddr {
	if address := a.Addr().Unmap(); address.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: address.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}
