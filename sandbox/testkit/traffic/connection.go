package traffic

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxBody bounds how much is read of an answer's body, in bytes.
const maxBody = 1 << 20

// connection sends requests, one at a time, on one connection, which it replaces
// when it is closed.
type connection struct {
	options *Options
	number  int
	conn    *net.TCPConn
	reader  *bufio.Reader
}

// exchange sends a request and returns what came of it: Status, Backend,
// FailedBackend, Pod and Problem.
func (c *connection) exchange() Answer {
	response, body, err := c.try()
	if err != nil {
		c.close()
		return Answer{Problem: err.Error()}
	}
	if response.Close || c.options.NewConnections {
		c.close()
	}
	answer := Answer{Status: response.StatusCode, Pod: response.Header.Get("X-Pod")}
	if response.StatusCode != http.StatusOK {
		// A proxy's own answer names no backend.
		if backend, err := c.options.Backend(response.Header, body); err == nil {
			answer.FailedBackend = backend
		}
		answer.Problem = fmt.Sprintf("status %d: %s", response.StatusCode, strings.TrimSpace(string(body[:min(len(body), 200)])))
		return answer
	}
	if answer.Backend, err = c.options.Backend(response.Header, body); err != nil {
		answer.Problem = err.Error()
	}
	return answer
}

func (c *connection) try() (*http.Response, []byte, error) {
	deadline := time.Now().Add(c.options.Timeout)
	if err := c.connect(deadline); err != nil {
		return nil, nil, err
	}
	target, err := url.ParseRequestURI(c.options.Path)
	if err != nil {
		return nil, nil, err
	}
	request := &http.Request{Method: http.MethodGet, URL: target, Host: c.options.Host, Header: c.options.Header.Clone()}
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Close = c.options.NewConnections
	if err := request.Write(c.conn); err != nil {
		return nil, nil, fmt.Errorf("sending the request: %w", err)
	}
	response, err := c.readHeader(request)
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for the answer: %w", explain(err))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	_ = response.Body.Close()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the answer, of status %d: %w", response.StatusCode, explain(err))
	}
	return response, body, nil
}

// readHeader reads the header of an answer, and skips interim (1xx) ones.
func (c *connection) readHeader(request *http.Request) (*http.Response, error) {
	for {
		response, err := http.ReadResponse(c.reader, request)
		if err != nil || response.StatusCode >= 200 || response.StatusCode == http.StatusSwitchingProtocols {
			return response, err
		}
	}
}

// connect makes a connection if there is none, and sets its deadline. A connection
// that the other side closed while it was idle is replaced, as any client does.
func (c *connection) connect(deadline time.Time) error {
	if c.conn != nil && !quiet(c.conn) {
		c.close()
	}
	if c.conn == nil {
		conn, err := (&net.Dialer{Deadline: deadline}).Dial("tcp", c.options.Target)
		if err != nil {
			return err
		}
		c.conn = conn.(*net.TCPConn)
		c.reader = bufio.NewReader(c.conn)
	}
	return c.conn.SetDeadline(deadline)
}

func (c *connection) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn, c.reader = nil, nil
	}
}

// quiet says whether a connection is open, with nothing to be read from it.
func quiet(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var peekErr error
	err = raw.Control(func(fd uintptr) {
		var buffer [1]byte
		_, _, peekErr = unix.Recvfrom(int(fd), buffer[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return err == nil && errors.Is(peekErr, unix.EAGAIN)
}

// explain puts into words what EOF means here.
func explain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the connection was closed: %w", err)
	}
	return err
}
