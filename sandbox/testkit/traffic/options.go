package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Options says what to send, and where.
type Options struct {
	// Target is the host:port to dial.
	Target string
	// Host is the Host header; empty means Target.
	Host string
	// Path is the path and query of every request; empty means /color.
	Path string
	// Header has further fields to send with every request.
	Header http.Header
	// Rate is how many requests to send a second, all connections together; 0 is as
	// many as get answers. Requests that could not be sent in time, because answers
	// took too long, are not made up for.
	Rate float64
	// Connections is how many connections there are; 0 means 1. Each has one
	// request under way at most.
	Connections int
	// InTurn sends one request at a time, on one connection after the other: the
	// order in which requests were sent is then the order in which they arrived.
	// Without it all connections send at the same time.
	InTurn bool
	// NewConnections makes a new connection for each request, instead of reusing
	// one.
	NewConnections bool
	// Timeout is how long a request may take, its connection included; 0 means
	// 10 seconds.
	Timeout time.Duration
	// Backend returns the name of the backend that has sent an answer of status
	// 200; nil means Colour.
	Backend func(header http.Header, body []byte) (string, error)
}

const (
	defaultPath    = "/color"
	defaultTimeout = 10 * time.Second
)

func (o Options) complete() (Options, error) {
	if _, _, err := net.SplitHostPort(o.Target); err != nil {
		return o, fmt.Errorf("target %q: expected host:port: %w", o.Target, err)
	}
	if o.Rate < 0 || o.Connections < 0 || o.Timeout < 0 {
		return o, errors.New("rate, connections and timeout cannot be negative")
	}
	if o.Host == "" {
		o.Host = o.Target
	}
	if o.Path == "" {
		o.Path = defaultPath
	}
	if o.Connections == 0 {
		o.Connections = 1
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Backend == nil {
		o.Backend = Colour
	}
	return o, nil
}

// Colour reads what argoproj/rollouts-demo answers on /color: its colour as a
// JSON string.
func Colour(_ http.Header, body []byte) (string, error) {
	var colour string
	if err := json.Unmarshal(body, &colour); err != nil || colour == "" {
		return "", fmt.Errorf("the answer is no colour: %q", body)
	}
	return colour, nil
}
