// Package proxy serves a routing table: it takes requests in HTTP/1.1 and
// HTTP/2, with or without TLS, and sends each to an endpoint of one of the
// backends of its route, by Go's own HTTP server and transport.
//
// # The handlers of a request
//
// [Proxy.handlers] lists what happens to a request, the outermost handler first. A handler
// is a func(next http.Handler) http.Handler. To add one, write it in a file of
// its own, with its test, and add one line to the list:
//
//	func (p *Proxy) warnOfErrors(next http.Handler) http.Handler {
//		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//			rec := recordOf(r)
//			defer func() {
//				if rec.finalCode() >= 500 {
//					p.log.Warn("failed", "object", rec.object(), "code", rec.finalCode())
//				}
//			}()
//			next.ServeHTTP(w, r)
//		})
//	}
//
// A handler that is switched off returns next itself, and costs nothing. What the
// handlers know of a request is in its record, which recordOf returns: a handler sets the
// fields that are its own, and reads the others after it has called next. It does so in a
// deferred function, as a request may end with a panic: http.ErrAbortHandler when its
// client left or its answer was cut short. A handler answers a request itself by refuse
// or refuseForNow, and then does not call next. If it replaces the request, the new one's
// context has to derive from the old one's; if it wraps the writer, the wrapper has to
// have Unwrap.
//
// # Which backend
//
// The choice is smooth weighted round robin, not random: of any 100 consecutive
// requests of a route, a backend with a fifth of the shares gets 20, give or take one.
// A change of the shares goes on with the credits that the backends have. Within a
// backend the less busy of two endpoints picked at random gets the request.
//
// # What is tried again
//
// If an endpoint cannot be connected to, nothing of the request was sent. The request
// then goes once to another endpoint of the same backend; and once to another
// backend, when there is no such endpoint or it cannot be connected to either. If that
// fails, too, the request waits like those of a cold start, for 2 s at most, until there is
// an endpoint that did not fail just now, and is sent again.
//
// If the connection is closed before the first byte of the answer, a GET, HEAD or
// OPTIONS without a body is sent once more, on a new connection: to another endpoint
// of the same backend, or to the same where there is no other; unless Envoy has sent
// the request before.
//
// Go's transport also sends a request again if an idle connection turned out to be
// closed before the request was sent, or if the application refused it in HTTP/2
// without processing it. Nothing else is tried twice.
//
// # Cold start
//
// A request whose route has no endpoint waits until it has one, for at most the
// route's wait time; the number and the bytes of waiting requests are bounded. A
// request that waits longer, does not fit, or still waits when a shutdown is about to
// end goes to the failover of the route or is answered 503. When there is too little
// room, it is shared among namespaces, and among the routes of a namespace, by max-min
// fairness: requests of those that have more than their share are turned away. A
// short HTTP/1.1 body is read meanwhile, so that the server notices a client that
// leaves: its request is not sent.
//
// # What ends a request
//
// Its client, its backend, and the route's timeout for response headers, which
// begins when the whole request has been sent. A stream that is alive is never cut,
// however long it is silent; peers that are gone are found by TCP keep-alive probes
// and HTTP/2 pings.
package proxy
