// Package outbound makes the HTTP requests of a registration of the step plugin, to allowed
// hosts alone.
//
// The author of a Rollout says where a request goes, and the plugin runs in the
// controller's network with the controller's rights. So the host is compared with those
// that an admin allows, for each redirect too, and the address is checked when the
// connection is made. A proxy in the controller's environment (HTTPS_PROXY) is not used:
// the address that a proxy connects to cannot be checked from here.
package outbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

const (
	// maxRequest bounds the body of a request, maxResponse that of an answer, decompressed,
	// in bytes.
	maxRequest  = 1 << 20
	maxResponse = 1 << 20
	// maxResponseHeader bounds the header of an answer, in bytes.
	maxResponseHeader = 64 << 10
	// maxRedirects is how many redirects of one request are followed.
	maxRedirects = 5
	// connectTimeout bounds the TCP connect, and then the TLS handshake separately.
	connectTimeout = 10 * time.Second
)

// Options say what a Client may do.
type Options struct {
	// Hosts are those of --allow-host.
	Hosts Hosts
	// Addresses are those of --allow-address, which are allowed although they are
	// loopback, link-local, metadata and the like.
	Addresses []netip.Prefix
	// UserAgent is for requests that set none.
	UserAgent string
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
}

// Client makes requests. It is safe for concurrent use.
type Client struct {
	opts       Options
	transports transports
}

// New returns a Client.
func New(opts Options) *Client { return &Client{opts: opts} }

// Request is one request.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte
	// Hosts are allowed for this request, besides those of the Client.
	Hosts Hosts
	// HostsOnly allows Hosts alone, not those of the Client.
	HostsOnly bool
	// CA has the certificates (PEM) of the authorities that are trusted, in place of the
	// system's; nil is the system's.
	CA []byte
	// NoRedirects returns a redirect as the answer, instead of following it.
	NoRedirects bool
	// Repeatable lets a request that reads (ReadsOnly) reuse an idle connection. net/http
	// repeats it by itself if that connection ends without an answer.
	Repeatable bool
}

// Response is an answer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// RefusedError says that a request was not made, or its answer not accepted, and that another
// attempt would fail too.
type RefusedError struct {
	Cause error
	// Reached is true when a server has received a request.
	Reached bool
}

// Error returns the text of the cause.
func (e *RefusedError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// ReadsOnly tells whether a request with this method changes nothing on the server.
func ReadsOnly(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// Do makes a request and follows redirects: to allowed hosts, never from https to http, and
// to another origin without the header's credentials.
//
// The error is a RefusedError if another attempt would fail too, a steps.UnansweredError if
// the server may have carried out the request, and any other error if the request was
// certainly not sent. No error holds the path or the query of the URL. It may hold text from
// the server, in which the server may repeat a secret.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	at, err := ParseURL(r.URL)
	if err != nil {
		return nil, &RefusedError{Cause: err}
	}
	if err := checkHeader(r.Header); err != nil {
		return nil, &RefusedError{Cause: err}
	}
	if len(r.Body) > maxRequest {
		return nil, &RefusedError{Cause: fmt.Errorf("the body has %d bytes: want %d at most", len(r.Body), maxRequest)}
	}
	pair, err := c.transports.of(r.CA, c.newTransport)
	if err != nil {
		return nil, err
	}
	header := r.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if header.Get("User-Agent") == "" && c.opts.UserAgent != "" {
		header.Set("User-Agent", c.opts.UserAgent)
	}
	hop := hop{method: r.Method, at: at, header: header, body: r.Body}
	for redirects := 0; ; redirects++ {
		if err := c.allow(hop.at, r); err != nil {
			return nil, hop.refused(err)
		}
		response, err := pair.send(ctx, hop, r.Repeatable)
		if err != nil {
			return nil, err
		}
		location, ok := redirectOf(response)
		if !ok || r.NoRedirects {
			return response, nil
		}
		if redirects == maxRedirects {
			return nil, hop.refused(fmt.Errorf("%d redirects: want %d at most", redirects+1, maxRedirects))
		}
		if hop, err = hop.follow(response.Status, location); err != nil {
			return nil, err
		}
	}
}

// Check returns a RefusedError if a request would not be made to its URL.
func (c *Client) Check(r Request) error {
	at, err := ParseURL(r.URL)
	if err == nil {
		err = c.allow(at, r)
	}
	if err != nil {
		return &RefusedError{Cause: err}
	}
	return nil
}

// allow returns an error if a request may not go to a host.
func (c *Client) allow(at Target, r Request) error {
	switch {
	case r.Hosts.Allow(at), !r.HostsOnly && c.opts.Hosts.Allow(at):
		return nil
	case r.HostsOnly:
		return fmt.Errorf("host %q is not among the hosts of the preset, and the request has a secret that goes to those alone", at.authority())
	default:
		return fmt.Errorf("host %q is not allowed: an admin allows hosts where the plugin is registered, with --allow-host=%s or in the hosts of a preset", at.authority(), at.authority())
	}
}

// hop is the first request, or one that follows a redirect.
type hop struct {
	method string
	at     Target
	header http.Header
	body   []byte
	// redirected is true for a request that follows a redirect; done is true for one that
	// follows a redirect after which the server may have carried out the first request.
	redirected, done bool
}

func (h hop) String() string { return h.method + " " + h.at.Origin() }

// refused returns a RefusedError, which names the host if the request follows a redirect.
func (h hop) refused(cause error) error {
	if h.redirected {
		return &RefusedError{Cause: fmt.Errorf("redirected to %s: %w", h.at.Origin(), cause), Reached: true}
	}
	return &RefusedError{Cause: cause}
}

// send makes one request and reads the answer.
func (p *transportPair) send(ctx context.Context, h hop, repeatable bool) (*Response, error) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, h.method, h.at.url.String(), bytes.NewReader(h.body))
	if err != nil {
		return nil, &RefusedError{Cause: fmt.Errorf("%q is no method of HTTP", h.method)}
	}
	request.Header = h.header
	// net/http repeats a request by itself that failed on a reused connection, if the request
	// reads or has an Idempotency-Key. So a request that may change something gets a new
	// connection.
	transport := p.single
	if repeatable && ReadsOnly(h.method) {
		transport = p.kept
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, h.failed(ctx, err, sent.Load())
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the connection, which has no end.
		return nil, &RefusedError{Cause: fmt.Errorf("%s answered 101 and went on in another protocol, which was not asked for", h), Reached: true}
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, h.failed(ctx, fmt.Errorf("the answer %d was cut off: %w", answer.StatusCode, err), true)
	case len(body) > maxResponse:
		return nil, &RefusedError{Cause: fmt.Errorf("%s: the answer %d has more than %d bytes", h, answer.StatusCode, maxResponse), Reached: true}
	}
	return &Response{Status: answer.StatusCode, Header: answer.Header, Body: body}, nil
}

// failed returns the error of a request without an answer.
func (h hop) failed(ctx context.Context, cause error, sent bool) error {
	var refused *RefusedError
	if errors.As(cause, &refused) && !sent {
		return h.refused(fmt.Errorf("%s: %w", h, refused.Cause))
	}
	if ctx.Err() != nil {
		cause = ctx.Err()
		if errors.Is(cause, context.DeadlineExceeded) {
			cause = fmt.Errorf("timed out (%w)", cause)
		}
	}
	err := fmt.Errorf("%s: %w", h, cause)
	if sent || h.done {
		return &steps.UnansweredError{Cause: err}
	}
	return err
}

// redirectOf returns where an answer redirects to.
func redirectOf(response *Response) (location string, ok bool) {
	switch response.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		location = response.Header.Get("Location")
	}
	return location, location != ""
}

// follow returns the request that follows a redirect of this one.
func (h hop) follow(status int, location string) (hop, error) {
	refuse := func(format string, args ...any) (hop, error) {
		return hop{}, &RefusedError{Cause: fmt.Errorf("%s: redirected: %w", h, fmt.Errorf(format, args...)), Reached: true}
	}
	if len(location) > maxURL {
		return refuse("the URL has more than %d bytes", maxURL)
	}
	parsed, err := h.at.url.Parse(location)
	if err != nil {
		return refuse("%w", errNoURL)
	}
	next := h
	next.redirected = true
	if next.at, err = targetOf(parsed); err != nil {
		return refuse("%w", err)
	}
	if h.at.url.Scheme == "https" && next.at.url.Scheme == "http" {
		return refuse("from https to %s, which is not encrypted", next.at.Origin())
	}
	next.header = h.header.Clone()
	if next.at.Origin() != h.at.Origin() {
		next.header = withoutCredentials(h.header)
	}
	// 307 and 308 ask for the same request elsewhere. The other statuses mean that the
	// request has been carried out, and that its result can be read.
	if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect && !ReadsOnly(h.method) {
		next.method, next.body, next.done = http.MethodGet, nil, true
		next.header.Del("Content-Type")
	}
	return next, nil
}

// Describe names a request by its method and host, for messages.
func Describe(method, url string) string {
	at, err := ParseURL(url)
	if err != nil {
		return method
	}
	return strings.TrimSpace(method + " " + at.Origin())
}
