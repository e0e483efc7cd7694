package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// exchange is a request and those that follow its redirects.
type exchange struct {
	Request
	client *Client
	config *tls.Config
	// what names the latest request for messages, which goes to at.
	what string
	at   Target
	// outcome is what the requests so far have done.
	outcome steps.Outcome
	// moved is true when a redirect has led to another origin.
	moved bool
}

// RoundTrip makes one request, the first or one that follows a redirect.
func (x *exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	by, err := x.client.allow(x.at, x.Request)
	if err != nil {
		return nil, x.failed(err)
	}
	if x.client.opts.Proxy != nil {
		if err := x.client.checkName(ctx, x.at.host, by); err != nil {
			return nil, x.failed(ended(ctx, err))
		}
	}
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	request = request.WithContext(httptrace.WithClientTrace(ctx, trace))
	request.URL = x.at.url
	config := x.config
	if x.moved {
		config = config.Clone()
		config.Certificates = nil
	}
	answer, err := x.client.transport(config, by).RoundTrip(request)
	if err != nil {
		if sent.Load() && !refusedCertificate(err) {
			x.outcome = steps.MayBeDone
		}
		return nil, x.failed(ended(ctx, err))
	}
	switch answer.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		// The request has been carried out, and its result can be read elsewhere. 307 and 308
		// ask for the same request elsewhere.
		if !ReadsOnly(request.Method) {
			x.outcome = steps.MayBeDone
		}
	}
	return answer, nil
}

// refusedCertificate tells whether a server refused the client's certificate. A server of TLS
// 1.3 says so after the handshake, in place of reading the request.
func refusedCertificate(err error) bool {
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate")
}

// checkRedirect returns an error if a redirect is not to be followed, and takes from the next
// request what is not for another origin.
func (x *exchange) checkRedirect(next *http.Request, before []*http.Request) error {
	if x.NoRedirects {
		return http.ErrUseLastResponse
	}
	if len(before) > maxRedirects {
		return x.failed(refusal("%d redirects: want %d at most", len(before), maxRedirects))
	}
	at, err := ParseURL(next.URL.String())
	if err != nil {
		return x.failed(refusal("redirected: %w", err))
	}
	if x.at.url.Scheme == "https" && at.url.Scheme == "http" {
		return x.failed(refusal("redirected from https to %s, which is not encrypted", at.Origin()))
	}
	x.moved = x.moved || at.Origin() != x.at.Origin()
	x.at, x.what = at, "redirected to "+next.Method+" "+at.Origin()
	if x.moved {
		next.Header = withoutCredentials(next.Header)
		if next.ContentLength != 0 {
			return x.failed(refusal("the body of a request is not sent to another origin"))
		}
	}
	return nil
}

// failed returns the error of the exchange after its latest request has failed.
func (x *exchange) failed(cause error) *steps.Error {
	var refused *steps.Error
	final := errors.As(cause, &refused)
	if final {
		cause = refused.Cause
	}
	return &steps.Error{Outcome: x.outcome, Final: final, Cause: fmt.Errorf("%s: %w", x.what, cause)}
}

// ended returns the error of what may have failed because its time is over.
func ended(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("timed out (%w)", context.Cause(ctx))
	default:
		return context.Cause(ctx)
	}
}
