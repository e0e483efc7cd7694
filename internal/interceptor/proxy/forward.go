package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

var (
	errNoEndpoint    = errors.New("there is no endpoint to send the request to")
	errHeaderTimeout = errors.New("the application did not answer in time")
)

// forward sends a request to the backend that was chosen for it, and answers it.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request) {
	rec := recordOf(r)
	x := &rec.exchange
	if rec.triedInVain() { // the first one is over
		x = new(exchange)
	}
	x.proxy, x.w, x.in, x.record = p, w, r, rec
	defer x.finish()
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		// An application may answer before it has the whole request. A writer
		// without full duplex passes the answer on afterwards.
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	first, timeout := rec.backend, p.responseHeader(rec.served)
	res, stop, err := x.send(first, rec.second, timeout)
	defer stop()
	switch {
	case err == nil && res.StatusCode == http.StatusSwitchingProtocols:
		x.tunnel(res)
	case err == nil && !statusInRange(res.StatusCode):
		_ = res.Body.Close()
		refuse(w, r, http.StatusBadGateway, "the application answered with the status %d; expected one from 200 to 999", res.StatusCode)
	case err == nil:
		x.answer(res)
	case r.Context().Err() != nil:
		abandon(r)
	case errors.Is(err, errNoEndpoint):
		p.refuseForNow(w, r, "there is no endpoint ready to take the request")
	case errors.Is(err, errHeaderTimeout):
		refuseTooLate(w, r, timeout)
	case x.bodyBroken():
		w.Header()["Connection"] = closing
		refuse(w, r, http.StatusBadRequest, "the body of the request cannot be read")
	case notConnected(err) && !x.bodyStarted() && p.sendAgain(rec): // hold sees to it
	case notConnected(err):
		refuse(w, r, http.StatusBadGateway, "the application cannot be connected to")
	default:
		p.log.Debug("a request failed after it was sent", "endpoint", rec.endpoint, "error", err)
		refuse(w, r, http.StatusBadGateway, "the connection to the application broke before it answered")
	}
}

// exchange is one request on its way to an application, and the answer back.
type exchange struct {
	proxy  *Proxy
	w      http.ResponseWriter
	in     *http.Request
	record *record

	// to is the endpoint of the try under way, of record.backend; nil before and after.
	to *endpoint
	// triedAnother tells that a second endpoint of the first backend was tried, or looked for
	// in vain.
	triedAnother bool
	// answerBegan tells that the application has begun to answer.
	answerBegan atomic.Bool

	// out and url are the request of the first try. Another try has a request of its
	// own, as the transport may still read the earlier one.
	out    http.Request
	url    url.URL
	values [2]string    // of headers, see addForwarded
	body   *requestBody // of the latest try, nil without
	trace  httptrace.ClientTrace
	clock  headerClock

	mu       sync.Mutex
	answered bool // the tries are over: no informational answer may follow
}

// occupy takes an endpoint of a backend, other than the endpoint not. It tells whether
// there is one.
func (x *exchange) occupy(b *backend, not *endpoint) bool {
	e := b.pool.pick(not)
	if e == nil {
		return false
	}
	x.release()
	e.busy.Add(1)
	b.metrics.inFlight.Inc()
	x.record.backend, x.record.endpoint, x.to = b, e.host, e
	return true
}

// release gives the endpoint back.
func (x *exchange) release() {
	if x.to != nil {
		x.to.busy.Add(-1)
		x.record.backend.metrics.inFlight.Dec()
		x.to = nil
	}
}

// send sends the request to an endpoint of the first backend, or, if that cannot be
// connected to, to another endpoint of it. If there is no other endpoint, or it cannot
// be connected to either, the request goes to the second backend, which may be nil:
// pods of a canary may all be gone at once. A request that was sent is sent again if
// repeat says so. stop is to be called when the exchange is over.
func (x *exchange) send(first, second *backend, timeout time.Duration) (res *http.Response, stop context.CancelFunc, err error) {
	if !x.occupy(first, nil) {
		return nil, func() {}, errNoEndpoint
	}
	hasBody := x.in.Body != nil && x.in.Body != http.NoBody && x.in.ContentLength != 0
	ctx, stop := x.clock.start(x.in.Context(), timeout, !hasBody)
	trace := &x.record.exchange.trace // of the request's context
	trace.Got1xxResponse = x.inform
	trace.GotFirstResponseByte = x.answerBegins
	for more := true; more; x.record.triedAgain = x.record.triedAgain || more {
		fresh := x.record.repeated || x.record.secondTry
		out := x.request(ctx, hasBody)
		x.record.spans.beginTry(x.record, out)
		res, err = x.proxy.transports.of(x.record.backend.pool.protocol, fresh).RoundTrip(out)
		x.tried(ctx, res, err)
		if err == nil || ctx.Err() != nil {
			break
		}
		if !notConnected(err) {
			more = x.repeat(hasBody)
			continue
		}
		if x.to.shun() {
			x.proxy.log.Warn("cannot connect to an endpoint; it is the last choice for a while", "endpoint", x.to.host, "error", err)
		}
		more = !x.bodyStarted() && x.another(first, second)
	}
	x.mu.Lock()
	x.answered = true
	x.mu.Unlock()
	if !x.clock.stop() {
		if err == nil {
			_ = res.Body.Close()
		}
		return nil, stop, errHeaderTimeout
	}
	if err == nil {
		x.to.forgive()
	}
	return res, stop, err
}

// another takes the endpoint for the next try after one that could not be connected to.
// It tells whether there is one.
func (x *exchange) another(first, second *backend) bool {
	if x.record.backend == first && !x.triedAnother {
		x.triedAnother = true
		if x.occupy(first, x.to) {
			return true
		}
	}
	return x.record.backend == first && second != nil && x.occupy(second, nil)
}

// bodyStarted tells whether the body was read from, so that it cannot be sent again.
func (x *exchange) bodyStarted() bool { return x.body != nil && x.body.started.Load() }

// notConnected tells whether an error is from connecting, before anything was sent.
func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// request returns the request to send to the endpoint.
func (x *exchange) request(ctx context.Context, hasBody bool) *http.Request {
	out, target := &x.out, &x.url
	if out.URL != nil { // it is not the first try
		out, target = new(http.Request), new(url.URL)
	}
	*out = *x.in
	if ctx != x.in.Context() { // it has a limit for the response header
		*out = *x.in.WithContext(ctx)
	}
	setURL(target, x.in, x.to.host)
	out.URL = target
	out.Header = outHeader(x.in)
	if x.record.handover == nil {
		addForwarded(out.Header, x.in, &x.values)
	}
	if protocol := upgradeTo(x.in.Header); protocol != "" && x.record.backend.pool.protocol == routes.HTTP1 {
		out.Header["Connection"] = upgrade
		out.Header["Upgrade"] = []string{protocol}
	}
	out.RequestURI = ""
	out.Close = false
	out.Body, out.GetBody = nil, nil
	if hasBody {
		x.body = &requestBody{source: x.in.Body, sent: x.clock.sent}
		out.Body, out.GetBody = x.body, x.bodyAgain
	} else {
		out.ContentLength, out.TransferEncoding = 0, nil
	}
	if x.record.backend.pool.protocol == routes.HTTP1 {
		forbidReplay(out, hasBody)
	}
	return out
}

// bodyAgain is an http.Request.GetBody: it gives the transport the body for another try
// of its own, which it makes when a connection turns out to be closed. It fails once
// the body has been read from.
func (x *exchange) bodyAgain() (io.ReadCloser, error) {
	if x.bodyStarted() {
		return nil, errBodyStarted
	}
	x.body = &requestBody{source: x.in.Body, sent: x.clock.sent}
	return x.body, nil
}

// setURL sets the URL of a request to a host. It passes on the path as it came, which is
// as it was matched: Go would write some paths differently from how it read them.
func setURL(u *url.URL, in *http.Request, host string) {
	*u = url.URL{Scheme: "http", Host: host, RawQuery: in.URL.RawQuery, ForceQuery: in.URL.ForceQuery}
	if path := routes.PathOf(in.RequestURI); strings.HasPrefix(path, "//") {
		u.Path, u.RawPath = in.URL.Path, in.URL.RawPath // Opaque would be read as an authority
	} else {
		u.Opaque = path
	}
}

// inform passes on an informational answer, such as 103 Early Hints.
func (x *exchange) inform(code int, header textproto.MIMEHeader) error {
	if code == http.StatusContinue {
		return nil // the server sends it itself when the body is read, which follows
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answered {
		return nil
	}
	h := x.w.Header()
	before := maps.Clone(h)
	copyEndToEnd(h, http.Header(header))
	delete(h, "Connection") // it is for the final answer
	x.w.WriteHeader(code)
	clear(h)
	maps.Copy(h, before)
	return nil
}

// finish is called when the exchange is over, however it ended.
func (x *exchange) finish() {
	if x.body != nil {
		_ = x.body.Close()
	}
	x.release()
}
