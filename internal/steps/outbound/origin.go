package outbound

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// idleTimeout is how long a connection of a RoundTripper stays open without a request.
	idleTimeout = 90 * time.Second
	// headerTimeout bounds the wait for the header of an answer.
	headerTimeout = 20 * time.Second
	// pingAfter is when a connection is asked whether it still is one, and pingTimeout how long
	// that may take: a server that has gone away during a long answer would not be missed.
	pingAfter, pingTimeout = 20 * time.Second, 10 * time.Second
	// maxAnswer bounds an answer, and maxLine a line of one that is a stream, in bytes.
	maxAnswer, maxLine = 64 << 20, 8 << 20
)

// RoundTripper returns what makes requests to the origin of a URL, with TLS, for a client of a
// protocol of its own, such as Kubernetes' API. The host has to be allowed, as for Do, and each
// connection goes to a checked address or through the egress proxy. Unlike Do, it keeps
// connections, follows no redirect, and leaves the credentials in the header to its caller. An
// answer has 64 MiB at most; to a request with the query watch it is a stream, of which each
// line has 8 MiB at most. serverName is the name in
// the server's certificate where that is another one than the URL's; empty if it is not.
func (c *Client) RoundTripper(r Request, serverName string) (http.RoundTripper, error) {
	at, err := ParseURL(r.URL)
	if err != nil {
		return nil, refusal("%w", err)
	}
	if at.url.Scheme != "https" {
		return nil, refusal("%s is not encrypted: want a URL that begins with https://", at.Origin())
	}
	by, err := c.allow(at, r)
	if err != nil {
		return nil, err
	}
	config, err := r.tlsConfig()
	if err != nil {
		return nil, refusal("%w", err)
	}
	config.ServerName = serverName
	transport := c.transport(config, by)
	transport.DisableKeepAlives, transport.ForceAttemptHTTP2 = false, true
	transport.IdleConnTimeout, transport.ResponseHeaderTimeout = idleTimeout, headerTimeout
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	return &originTransport{client: c, at: at, by: by, transport: transport}, nil
}

// originTransport makes requests to one origin.
type originTransport struct {
	client    *Client
	at        Target
	by        access
	transport *http.Transport
}

// RoundTrip makes one request.
func (o *originTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	if at, err := ParseURL(request.URL.String()); err != nil || at.Origin() != o.at.Origin() {
		return nil, refusal("a request to another origin than %s", o.at.Origin())
	}
	if o.client.opts.Proxy != nil {
		if err := o.client.checkName(ctx, o.at.host, o.by); err != nil {
			return nil, ended(ctx, err)
		}
	}
	answer, err := o.transport.RoundTrip(request)
	if err != nil {
		return nil, ended(ctx, err)
	}
	if answer.StatusCode >= 300 && answer.StatusCode < 400 {
		// The client would follow it with its credentials.
		_ = answer.Body.Close()
		return nil, refusal("%s answered with a redirect (%d), which is not followed", o.at.Origin(), answer.StatusCode)
	}
	body := &bounded{ReadCloser: answer.Body, limit: maxAnswer}
	if request.URL.Query().Has("watch") {
		body.limit, body.byLine = maxLine, true
	}
	answer.Body = body
	return answer, nil
}

// bounded is a body that ends with an error if it, or a line of it, is too large.
type bounded struct {
	io.ReadCloser
	limit, read int
	byLine      bool
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += n
	if end := bytes.LastIndexByte(p[:n], '\n'); b.byLine && end >= 0 {
		b.read = n - end - 1
	}
	if b.read > b.limit {
		return 0, fmt.Errorf("the answer is too large: want %d MiB at most", b.limit>>20)
	}
	return n, err
}
