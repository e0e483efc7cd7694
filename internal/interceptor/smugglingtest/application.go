package smugglingtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Application answers every request with what it read, and keeps the bytes that it
// got: a proxy is judged by the bytes that it sent, and not by how one server
// understands them.
type Application struct {
	// Name identifies the application in its answers.
	Name string
	// Addr is where it listens.
	Addr net.Addr

	server *http.Server
	ended  chan error
	mu     sync.Mutex
	conns  []*recordedConn
}

// seen is the answer of an application: which application answers, and what it was
// asked for.
type seen struct {
	Application, Target, Body string
}

// NewApplication serves on a listener until Close.
func NewApplication(name string, listener net.Listener) *Application {
	a := &Application{Name: name, Addr: listener.Addr(), ended: make(chan error, 1)}
	a.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    4 << 20, // it is the proxy that has to refuse large headers
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the proxy broke off the request
			}
			_ = json.NewEncoder(w).Encode(seen{name, r.RequestURI, string(body)})
		}),
	}
	go func() { a.ended <- a.server.Serve(recordingListener{listener, a}) }()
	return a
}

// Close stops accepting connections, closes the open ones, and returns the bytes
// that were received on each.
func (a *Application) Close() ([][]byte, error) {
	err := a.server.Close()
	if end := <-a.ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var sent [][]byte
	for _, c := range a.conns {
		c.mu.Lock()
		sent = append(sent, bytes.Clone(c.read.Bytes()))
		c.mu.Unlock()
	}
	return sent, err
}

type recordingListener struct {
	net.Listener
	application *Application
}

func (l recordingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &recordedConn{Conn: c}
	l.application.mu.Lock()
	l.application.conns = append(l.application.conns, conn)
	l.application.mu.Unlock()
	return conn, nil
}

type recordedConn struct {
	net.Conn
	mu   sync.Mutex
	read bytes.Buffer
}

func (c *recordedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.mu.Lock()
	c.read.Write(into[:n])
	c.mu.Unlock()
	return n, err
}
