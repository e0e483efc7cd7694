// Package outbound makes the HTTP requests of the step plugin, to allowed hosts alone.
//
// The author of a Rollout says where a request goes, and the plugin runs in the controller's
// network with the controller's rights. So the host is compared with those that an admin
// allows, for each redirect too, and the address is checked when the connection is made. A
// proxy in the controller's environment (HTTPS_PROXY) is not used: the address that a proxy
// connects to cannot be checked from here. An admin may set an egress proxy.
package outbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

const (
	// maxRequest bounds the body of a request, in bytes.
	maxRequest = 1 << 20
	// maxResponseHeader bounds the header of an answer, in bytes.
	maxResponseHeader = 64 << 10
	// maxRedirects is how many redirects of one request are followed.
	maxRedirects = 5
)

// Options say what a Client may do.
type Options struct {
	// Hosts are those of --allow-host.
	Hosts Hosts
	// Addresses are those of --allow-address, which are allowed although they are
	// loopback, link-local, metadata and the like, or private and allowed by a wildcard.
	Addresses []netip.Prefix
	// Proxy is the egress proxy that makes all requests (ParseProxy); nil is none. The
	// addresses of a host are then checked as this pod resolves it.
	Proxy *url.URL
	// UserAgent is for requests that set none.
	UserAgent string
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
}

// Client makes requests. It is safe for concurrent use.
type Client struct {
	opts   Options
	places places
}

// New returns a Client.
func New(opts Options) *Client { return &Client{opts: opts, places: newPlaces()} }

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
	// ClientCert has a certificate and its key (PEM) for servers that ask for one; nil is none.
	ClientCert []byte
	// NoRedirects returns a redirect as the answer, instead of following it.
	NoRedirects bool
}

// Response is an answer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Outcome is what the requests before a redirect have done: MayBeDone after 301, 302 or 303
	// of one that changes something, whatever the request that followed was answered.
	Outcome steps.Outcome

	release func()
}

// Release says that the body is no longer needed. Whoever gets a Response calls it, and
// before it makes another request: large bodies wait for one another. It may be called again,
// and without a Response.
func (r *Response) Release() {
	if r != nil && r.release != nil {
		r.release()
	}
}

// ReadsOnly tells whether a request with this method changes nothing on the server.
func ReadsOnly(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// Do makes a request and follows redirects: to allowed hosts, never from https to http, and
// to another origin without credentials and without a body.
//
// The error is a steps.Error, for a request that reads too: MayBeDone says that a server may
// have had it. It comes with a Response if the status has arrived and the whole body has not.
// No error holds the path or the query of the URL. It may hold text from the server, in which
// the server may repeat a secret.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	at, err := ParseURL(r.URL)
	if err != nil {
		return nil, refusal("%w", err)
	}
	what := Describe(r.Method, r.URL)
	if err := checkHeader(r.Header); err != nil {
		return nil, refusal("%s: %w", what, err)
	}
	if len(r.Body) > maxRequest {
		return nil, refusal("the body has %d bytes: want %d at most", len(r.Body), maxRequest)
	}
	config, err := r.tlsConfig()
	if err != nil {
		return nil, &steps.Error{Cause: err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, r.Method, at.url.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, refusal("%q is no method of HTTP", r.Method)
	}
	if r.Header != nil {
		request.Header = r.Header.Clone()
	}
	if request.Header.Get("User-Agent") == "" && c.opts.UserAgent != "" {
		request.Header.Set("User-Agent", c.opts.UserAgent)
	}
	x := &exchange{client: c, Request: r, config: config, at: at, what: what}
	answer, err := (&http.Client{Transport: x, CheckRedirect: x.checkRedirect}).Do(request)
	if err != nil {
		var known *steps.Error
		if !errors.As(err, &known) {
			// net/http cannot read the URL of a redirect. Its error holds the URL.
			known = x.failed(refusal("redirected: %w", errNoURL))
		}
		return nil, known
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the connection, which has no end.
		x.outcome = steps.MayBeDone
		return nil, x.failed(refusal("answered 101 and went on in another protocol, which was not asked for"))
	}
	response := &Response{Status: answer.StatusCode, Header: answer.Header, Outcome: x.outcome}
	response.Body, response.release, err = c.places.read(ctx, answer.Body, cancel)
	if err != nil {
		if answer.StatusCode < 400 || answer.StatusCode >= 500 {
			x.outcome = steps.MayBeDone
		}
		failed := x.failed(fmt.Errorf("the answer %d was cut off: %w", answer.StatusCode, ended(ctx, err)))
		failed.Final = errors.Is(err, errTooLarge)
		return response, failed
	}
	return response, nil
}

// Check returns an error if a request would not be made to its URL.
func (c *Client) Check(r Request) error {
	at, err := ParseURL(r.URL)
	if err == nil {
		_, err = c.allow(at, r)
	}
	return err
}

// allow returns how a request may go to a host, or an error.
func (c *Client) allow(at Target, r Request) (access, error) {
	by := r.Hosts.access(at)
	if !r.HostsOnly {
		by = max(by, c.opts.Hosts.access(at))
	}
	switch {
	case by != notAllowed:
		return by, nil
	case r.HostsOnly:
		return by, refusal("host %q is not among the hosts of the preset, and the request has a secret that goes to those alone", at.authority())
	default:
		return by, refusal("host %q is not allowed: an admin allows hosts where the plugin is registered, with --allow-host=%s or in the hosts of a preset", at.authority(), at.authority())
	}
}

// refusal is the error of what would be refused at another attempt too.
func refusal(format string, args ...any) *steps.Error {
	return &steps.Error{Final: true, Cause: fmt.Errorf(format, args...)}
}

// Describe names a request by its method and host, for messages.
func Describe(method, url string) string {
	at, err := ParseURL(url)
	if err != nil {
		return method
	}
	return strings.TrimSpace(method + " " + at.Origin())
}
