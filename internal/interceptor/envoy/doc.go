// Package envoy turns a routing table into resources of Envoy's xDS v3 API, and
// prints the bootstrap of an Envoy that asks for them. It is pure: it serves
// nothing and keeps nothing.
//
// # Resources
//
//   - A Cluster and its ClusterLoadAssignment for each backend, both named
//     <namespace>/<HTTPScaledObject>/<Service>. Addresses are in the assignment
//     alone: a pod that comes or goes touches no route and no cluster.
//   - One RouteConfiguration, kedify-proxy, with a VirtualHost for each domain.
//   - A Listener for HTTP and, where there is a certificate, one for TLS, whose
//     Secret is kedify-proxy too.
//
// The same input gives the same messages, and each passes its own ValidateAll.
//
// # The last resort
//
// Each assignment has the interceptor's fallback listeners at priority 1, below
// the ready endpoints. When no ready endpoint is left, the next request of that
// cluster goes to an interceptor, which gives it to another backend or holds it until
// there is an endpoint. On connections to an interceptor, and on no others, the names
// of the object and of the Service are in a PROXY protocol header (routes.FallbackTLV)
// before all of HTTP: a client can write nothing there, and no application sees it. The
// header has the client's address too, so Envoy does not share such a connection among
// the connections of its clients.
//
// # What differs from the embedded proxy
//
//   - A stream that is idle for an hour is ended.
//   - HTTP/1.1 can be upgraded to WebSocket alone; a request for another protocol
//     is answered 403, except for h2c, which is ignored.
//   - The application gets Host without a dot at the end, and names of headers in
//     lower case, as in HTTP/2.
//   - Headers x-envoy-* of clients are dropped, as Envoy would obey them.
//   - Informational responses (103 Early Hints) of applications are not passed on,
//     but end the timeout for the response's header. Envoy itself answers
//     "Expect: 100-continue".
//   - A request with both Content-Length and Transfer-Encoding is answered 400. Envoy
//     merges two Host headers into one, for which there is hardly ever an object.
//   - A GET, HEAD or OPTIONS whose connection is closed is retried even if it has a
//     body of unknown length, and until the whole header of the response is there.
//     Retries go through an interceptor: see retryPolicy. Without one an application
//     gets x-envoy-is-timeout-retry with them.
//   - An endpoint that cannot be connected to is ejected only after several requests,
//     and then for longer: see ejection.
//   - For a client on Envoy's own machine, X-Forwarded-For has the machine's address.
package envoy
