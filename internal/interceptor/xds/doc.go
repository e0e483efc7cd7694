// Package xds serves a routing table to Envoys, as an aggregated discovery
// service: what changes (delta) or the state of the world.
//
// # In which order
//
// Each stream is one goroutine, which looks at the newest table whenever it may
// send; nothing is queued for an Envoy that is slow. An Envoy applies what comes
// on one stream in order, so that no request falls between two resources:
//
//   - A virtual host is sent once the endpoints of all clusters that it names
//     were sent in answer to the Envoy's subscription. Until then the Envoy keeps
//     its version before; all other virtual hosts go on.
//   - The first route configuration of a stream waits until that is so for all
//     clusters, for 15 s at most: the Envoy may serve all of them already.
//   - A cluster goes when the Envoy has acknowledged routes that do not name it,
//     and Settings.Linger after that. Envoy lets requests and WebSockets go on
//     that are in flight on it.
//   - A cluster that is replaced (another protocol) gets its endpoints again,
//     for which the new one waits.
//
// There is one route configuration, at most one of which is on its way to an
// Envoy; what changes meanwhile goes together in the next.
//
// # Versions
//
// Versions are made of contents. An Envoy that comes back, to this or to another
// interceptor, is sent what differs from what it has. In the state of the world
// it does not say which clusters it has, and gets all when one differs. Those that
// it asks for the endpoints of, and that have gone meanwhile, are among them until
// it has routes that do not name them. How these look is not known: they are sent
// as clusters of HTTP/1.1 are. One that spoke HTTP/2 may be replaced for that time.
//
// # What an Envoy refuses
//
// Envoy refuses a route configuration as a whole. The virtual host at fault is
// the one that Envoy names, or is found by halves: of those that changed, some
// are sent anew and the others as they were accepted. In it the object is at
// fault whose rules are not as they were, in this and in its other virtual hosts;
// where that may be several, each. It is served everywhere as it was accepted
// last, if its hosts, paths and headers are still the same, and left out
// otherwise, until it changes. Of clusters and endpoints Envoy takes what is
// good; the others are told of, and sent again when they are others. An object
// that names a cluster which an Envoy refuses, and has none of that name from
// before, is in the virtual hosts of this Envoy alone as it accepted it last, or
// left out, until the cluster is another: nobody beside it waits.
//
// On a stream whose Envoy has routes from elsewhere that are not ours, what was
// accepted is not known: when Envoy does not name what is wrong there, virtual
// hosts are missing from it while it is looked for.
package xds
