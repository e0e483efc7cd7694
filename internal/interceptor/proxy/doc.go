// Package proxy serves a routing table: it takes requests in HTTP/1.1 and
// HTTP/2, with or without TLS, and sends each to an endpoint of one of the
// backends of its route, by Go's own HTTP server and transport.
//
// # Which backend
//
// The choice is smooth, not random: of any 100 consecutive requests of a route,
// a backend with a fifth of the shares gets 20, give or take one, and a change of
// the split goes on from where the split before was. Within a backend the less
// busy of two endpoints picked at random gets the request.
//
// # What is tried again
//
// A request whose connection could not be made, of which nothing was sent
// therefore, goes once to another endpoint of the same backend; and once to
// another backend, when there is no such endpoint or it is gone as well.
//
// A GET, HEAD or OPTIONS without a body whose connection is closed before a byte of
// its answer is sent once more, on a new connection: to another endpoint of the same
// backend, or to the same where there is no other; unless Envoy has sent it before.
//
// Besides, Go's transport sends a request again that was not sent, because a kept
// connection turned out to be closed before, or that the application refused in
// HTTP/2 without processing it. Nothing else is tried twice.
//
// # Cold start
//
// A request whose route has no endpoint is held until it has one, up to the
// route's time and to bounds of number and bytes. Whoever waits longer, or does not
// fit, goes to the failover of the route or is answered 503; so is whoever waits
// still when a shutdown is about to end. Where the bounds are short, what there is
// is shared among namespaces, and among the routes of a namespace: those that have
// more than their share give way. A short body of HTTP/1.1 is read meanwhile, so
// that a client that leaves is noticed: its request is not sent. The beginning of
// one in HTTP/2 is read to know how much of it is in memory.
//
// # What ends a request
//
// Its client, its backend, and the route's timeout for response headers, which
// begins when the request is sent entirely. A stream that is alive is never cut,
// however long it is silent; peers that are gone are found by keep-alives of TCP
// and pings of HTTP/2.
package proxy
