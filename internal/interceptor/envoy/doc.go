// Package envoy turns a routing table into resources of Envoy's xDS v3 API, and
// prints the bootstrap of an Envoy that asks for them. It is pure: it serves
// nothing and keeps nothing.
//
// # Resources
//
//   - A Cluster and its ClusterLoadAssignment for each backend, both named
//     <namespace>/<HTTPScaledObject>/<Service>. Addresses are in the assignment
//     alone: a pod that comes or goes touches no route and no cluster.
//   - One RouteConfiguration, kedify-proxy, of a VirtualHost for each domain.
//   - A Listener for HTTP and, where there is a certificate, one for TLS, whose
//     Secret is kedify-proxy too.
//
// The same input gives the same messages, and each passes its own ValidateAll.
//
// # The last resort
//
// Each assignment has the interceptor's fallback listeners at priority 1, below
// the ready endpoints. When these are gone, the next request of that cluster goes
// to an interceptor, which gives it to another backend or holds it until there is
// an endpoint. On these connections, and on no others, the names of the object and of
// the Service are in a PROXY protocol header (routes.FallbackTLV) ahead of everything
// that HTTP is: nothing a client sends can get there, and no application sees it. The header has the
// client's address too, so Envoy shares none of these connections among the
// connections of its clients.
//
// # What differs from the embedded proxy
//
//   - A stream on which nothing moves for an hour is ended.
//   - HTTP/1.1 can be upgraded to WebSocket alone; who asks for another protocol
//     is answered 403, except for h2c, which is not heeded.
//   - A dot at the end of Host is gone when the application gets it, and names of
//     headers arrive in lower case, as in HTTP/2.
//   - Headers x-envoy-* of clients are dropped: they would be orders to Envoy.
//   - Informational answers (103 Early Hints) of applications are not passed on,
//     end the timeout for the response's header, and "Expect: 100-continue" is
//     answered by Envoy itself.
//   - A request with both Content-Length and Transfer-Encoding is answered 400. Of
//     two Host headers Envoy makes one, which hardly anybody is for.
//   - A GET, HEAD or OPTIONS is tried again, when its connection is closed, also where
//     it has a body and does not say how long that is; and until the whole header of
//     the answer is there. Second tries go through an interceptor: see retryPolicy.
//     Without one an application gets x-envoy-is-timeout-retry with these.
//   - An endpoint that cannot be connected to is ejected after some requests, for
//     longer (ejection).
//   - Of a client on Envoy's own machine, X-Forwarded-For has the machine's
//     address.
package envoy
