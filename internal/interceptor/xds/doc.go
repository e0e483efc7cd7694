// Package xds serves a routing table to Envoys, as an aggregated discovery service
// (ADS), in both protocols: delta and the state of the world.
//
// What an Envoy was sent and has acknowledged is in its stream, and nowhere else. Only
// the stream's goroutine changes this state; people read it (EnvoyState), and the agent
// (ListAcknowledged).
//
// # Order
//
// Each stream is one goroutine, which takes the newest snapshot of the table whenever it may
// send; nothing is queued for an Envoy that is slow. An Envoy applies the responses
// of one stream in order. The order is make before break, so that no request is lost
// between two resources:
//
//   - An object is sent once the endpoints of all clusters that it names were
//     sent in answer to the Envoy's subscription. Until then the Envoy keeps the
//     previous form of the object; all other objects are sent meanwhile.
//   - The first route configuration of a stream waits until the endpoints of all
//     clusters were sent, for 15 s at most: the Envoy may serve all of them already.
//   - A cluster is removed Settings.Linger after the Envoy has acknowledged routes
//     that do not name it. Envoy does not cut requests and WebSockets that are in
//     flight on it.
//   - When a cluster is replaced (its protocol changed), its endpoints are sent
//     again: the new cluster warms until they arrive.
//
// There is one route configuration. An Envoy has at most one unanswered push of it;
// changes made meanwhile go together into the next push.
//
// # Versions
//
// Versions are hashes of contents. An Envoy that reconnects, to this or to another
// interceptor, is sent what differs from what it has. With the state of the world it
// does not say which clusters it has, and gets all when one differs. Clusters that
// have gone meanwhile, but whose endpoints it asks for, are among them until it has
// routes that do not name them. Their protocol is not known: they are sent as HTTP/1.1
// clusters. A cluster that spoke HTTP/2 may be replaced for that time.
//
// # What an Envoy refuses
//
// An object is not sent if Envoy would refuse the resources made from it. All Envoys
// get its last valid form instead, with the current split (admit). An interceptor that
// started after the object became invalid knows no such form; an Envoy that reconnects
// to it may have one.
//
// If one Envoy refuses anything else, nothing changes for the other Envoys. Each stream
// keeps the table that its Envoy has acknowledged. A push is that table with some objects
// in their current form. Envoy refuses a route configuration as a whole (NACK); then the
// objects of the push are suspects, which are sent in halves, in turns with other
// pending objects, until one is left. From an Envoy that refuses many of these probes in
// a row, the server backs off: it delays the next ones (backoff), and sends what changes
// at once. The refused form of that object is in quarantine,
// on this stream: until the object changes, the acknowledged table keeps its previous
// form, if there is one. The previous form is sent with the current split, so that an
// abort reaches the Envoy. Of clusters and endpoints, Envoy accepts the good ones; an
// object waits if it names a cluster that the Envoy refuses, and the Envoy has no
// earlier cluster of that name.
//
// The version of a route configuration lists the forms that are served in place of
// refused and of invalid objects, in 32 KiB at most. An Envoy that reconnects sends this
// version, and the first configuration has these same forms, so that the Envoy accepts
// it; then the objects that it refused are tried again (versionText, restore). If an
// object is invalid and the server has no valid form of it, the Envoy's form is in the
// table of the Envoy's stream, with the current split and endpoints, until the object is
// valid, deleted or recreated (adoptStandIns). A deleted object is not invalid: its
// routes are removed. An Envoy that has just started has no such forms. An object that
// became invalid while no interceptor ran is in no version: its routes are removed.
//
// If an Envoy that has routes from an earlier stream refuses the first configuration
// nevertheless, an object changed while the Envoy was away, to a form that this Envoy
// has not refused before. The server does not know which routes the Envoy has; if it
// sent a half and the Envoy accepted it, the routes of the other half would be gone.
// Instead it sends everything but one group of objects, and leaves out one group after
// the other, 64 at most: a refusal costs nothing. With up to 64 objects a group is one
// object, and the configuration that is accepted lacks only the object at fault. With
// more, the others of its group, n/64, are missing until the search by halves among them
// has found them good. All other objects are in each of these configurations in their
// current form. If objects in several groups are at fault, all these configurations are
// refused; then the search goes on by halves, and domains of other objects are missing
// meanwhile (searchFirst). The object at fault has no routes there until it changes.
package xds
