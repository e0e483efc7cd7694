package traffictest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// Wire is an application that answers every request and keeps the bytes it got,
// so that what a proxy makes of a request can be judged by what it sent, and not
// by how one server understands that.
type Wire struct {
	// Addr is where it listens.
	Addr net.Addr

	t      testing.TB
	server *http.Server
	ended  chan error
	mu     sync.Mutex
	conns  []*wireConn
}

// NewWire starts one, until the test ends.
func NewWire(t testing.TB) *Wire {
	t.Helper()
	listener := e2etest.ListenForPods(t)
	w := &Wire{Addr: listener.Addr(), t: t, ended: make(chan error, 1)}
	w.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return // the proxy broke it off
			}
			_, _ = io.WriteString(rw, r.URL.Path)
		}),
	}
	go func() { w.ended <- w.server.Serve(wireListener{listener, w}) }()
	t.Cleanup(func() { _ = w.server.Close() })
	return w
}

// Close takes no more connections, ends those there are, and returns what was
// sent on each. A proxy that had more to say has said it by then, if an answer to
// a later request came on each connection that it keeps.
func (w *Wire) Close() [][]byte {
	w.t.Helper()
	if err := w.server.Close(); err != nil {
		w.t.Errorf("closing the application: %v", err)
	}
	<-w.ended
	w.mu.Lock()
	defer w.mu.Unlock()
	var sent [][]byte
	for _, c := range w.conns {
		c.mu.Lock()
		sent = append(sent, bytes.Clone(c.read.Bytes()))
		c.mu.Unlock()
	}
	return sent
}

type wireListener struct {
	net.Listener
	wire *Wire
}

func (l wireListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &wireConn{Conn: c}
	l.wire.mu.Lock()
	l.wire.conns = append(l.wire.conns, conn)
	l.wire.mu.Unlock()
	return conn, nil
}

type wireConn struct {
	net.Conn
	mu   sync.Mutex
	read bytes.Buffer
}

func (c *wireConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.mu.Lock()
	c.read.Write(into[:n])
	c.mu.Unlock()
	return n, err
}

// A Message is a request as it stood on the wire.
type Message struct {
	Method, Target string
	Header         []string // lines, "Name: value"
	Body           []byte
}

var (
	requestLine = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z-]+) ([!-~\x80-\xff]+) HTTP/1\.1$`)
	// A field has no space before its colon, and no control characters.
	fieldLine = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z-]+):[ \t]*([\t !-~\x80-\xff]*)$`)
	chunkLine = regexp.MustCompile(`^[0-9A-Fa-f]{1,8}$`)
)

// ReadMessages reads what stood on a connection, and fails on anything that
// somebody could read in another way: a line that does not end in CRLF, a length
// said twice, chunks and a length, an encoding other than chunked, a folded or
// malformed field. The last message may be cut short.
func ReadMessages(sent []byte) ([]Message, error) {
	var all []Message
	r := &wireReader{rest: sent}
	for len(r.rest) > 0 {
		m, err := r.message()
		if errors.Is(err, io.ErrUnexpectedEOF) && m.Method != "" {
			return append(all, m), nil
		}
		if err != nil {
			return all, fmt.Errorf("%w, in %q", err, sent)
		}
		all = append(all, m)
	}
	return all, nil
}

type wireReader struct{ rest []byte }

func (r *wireReader) line() (string, error) {
	line, rest, found := bytes.Cut(r.rest, []byte("\r\n"))
	if bytes.ContainsAny(line, "\r\n\x00") {
		return "", fmt.Errorf("a line with a CR, LF or NUL in it: %q", line)
	}
	if !found {
		return "", io.ErrUnexpectedEOF
	}
	r.rest = rest
	return string(line), nil
}

func (r *wireReader) take(n int) ([]byte, error) {
	if len(r.rest) < n {
		return nil, io.ErrUnexpectedEOF
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken, nil
}

func (r *wireReader) message() (m Message, err error) {
	line, err := r.line()
	if err != nil {
		return m, err
	}
	parts := requestLine.FindStringSubmatch(line)
	if parts == nil {
		return m, fmt.Errorf("a line that begins no request: %q", line)
	}
	m.Method, m.Target = parts[1], parts[2]
	var lengths, encodings, hosts []string
	if m.Header, err = r.fields(); err != nil {
		return m, err
	}
	for _, field := range m.Header {
		name, value, _ := strings.Cut(field, ":")
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "content-length":
			lengths = append(lengths, value)
		case "transfer-encoding":
			encodings = append(encodings, value)
		case "host":
			hosts = append(hosts, value)
		}
	}
	switch {
	case len(hosts) != 1:
		return m, fmt.Errorf("hosts %q", hosts)
	case len(lengths)+len(encodings) > 1:
		return m, fmt.Errorf("its length is said more than once: %q and %q", lengths, encodings)
	case len(encodings) == 1 && encodings[0] != "chunked":
		return m, fmt.Errorf("the encoding is %q", encodings[0])
	case len(encodings) == 1:
		m.Body, err = r.chunks()
		return m, err
	case len(lengths) == 1:
		length, err := strconv.ParseUint(lengths[0], 10, 31)
		if err != nil || strings.Trim(lengths[0], "0123456789") != "" {
			return m, fmt.Errorf("the length is %q", lengths[0])
		}
		m.Body, err = r.take(int(length))
		return m, err
	}
	return m, nil
}

func (r *wireReader) fields() ([]string, error) {
	var fields []string
	for {
		line, err := r.line()
		if err != nil {
			return fields, err
		}
		if line == "" {
			return fields, nil
		}
		if !fieldLine.MatchString(line) {
			return fields, fmt.Errorf("a line that is no field: %q", line)
		}
		fields = append(fields, line)
	}
}

func (r *wireReader) chunks() ([]byte, error) {
	var body []byte
	for {
		line, err := r.line()
		if err != nil {
			return body, err
		}
		if !chunkLine.MatchString(line) {
			return body, fmt.Errorf("a line that begins no chunk: %q", line)
		}
		size, err := strconv.ParseUint(line, 16, 31)
		if err != nil {
			return body, err
		}
		if size == 0 {
			_, err := r.fields()
			return body, err
		}
		chunk, err := r.take(int(size) + 2)
		if err != nil {
			return body, err
		}
		if !bytes.HasSuffix(chunk, []byte("\r\n")) {
			return body, fmt.Errorf("a chunk that does not end where it says: %q", chunk)
		}
		body = append(body, chunk[:size]...)
	}
}

// Targets returns the targets of messages, in order.
func Targets(messages []Message) []string {
	var targets []string
	for _, m := range messages {
		targets = append(targets, m.Target)
	}
	slices.Sort(targets)
	return targets
}
