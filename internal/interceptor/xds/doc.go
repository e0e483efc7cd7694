// Package xds serves a routing table to Envoys, as an aggregated discovery
// service: what changes (delta) or the state of the world.
//
// What an Envoy was sent and has acknowledged is in its stream, and nowhere else. The
// stream's goroutine changes it, and people read it (EnvoyState).
//
// # In which order
//
// Each stream is one goroutine, which looks at the newest table whenever it may
// send; nothing is queued for an Envoy that is slow. An Envoy applies what comes
// on one stream in order, so that no request falls between two resources:
//
//   - An object is sent once the endpoints of all clusters that it names were
//     sent in answer to the Envoy's subscription. Until then the Envoy keeps its
//     form before; all other objects go on.
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
// An object of which Envoy would refuse what is made of it is not sent. All Envoys
// get its last valid form instead, with the current split (admit). An interceptor
// that has started since knows no such form; an Envoy that comes back to it may.
//
// What one Envoy refuses beyond that changes nothing for another. Each stream keeps
// the table that its Envoy has acknowledged. A push is that table with some objects
// in their current form. Envoy refuses a route configuration as a whole; then the
// objects of the push are suspects, which are sent in halves, in turns with what
// else is pending, until one is left. That form of it is in quarantine, on this
// stream: the acknowledged table keeps the form before, if there is one, until the
// object changes. That form is sent with the current split, so that an abort of the
// object arrives. Of clusters and endpoints Envoy takes what is good; an object
// that names a cluster which the Envoy refuses, and has none of that name from
// before, waits.
//
// The version of a route configuration lists what stands in for refused and for
// invalid objects, in 32 KiB at most. An Envoy that comes back says it, and the first
// configuration has just that, so that the Envoy takes it; then the objects that it
// refused are tried again (versionText, restore). What it has of an object that is
// invalid and of which the server has no valid form is in the table of its stream, as
// the last valid form is in that of all: with the current split and endpoints, until
// the object is valid, gone or made anew (adoptStandIns). An object that is not there
// any more is not invalid, and goes. An Envoy that starts has nothing of either. An
// object that became invalid while no interceptor was there is in no version: its
// routes go.
//
// Where an Envoy that has routes from another stream refuses the first
// configuration nevertheless, an object changed while the Envoy was away, to a form
// that this Envoy has not refused before. What it has is not known, so that halves,
// once accepted, would end the routes of the other half. Instead everything but one
// group of objects is sent, one group after the other, 64 at most: a refusal costs
// nothing. With up to 64 objects a group is one object, and the configuration that
// is accepted lacks the object at fault alone. With more, the others of its group,
// n/64, are missing until the search by halves among them has found them good. All
// other objects are in each of these configurations in their current form. Objects
// at fault in several groups make all of these be refused; then it comes to halves,
// and domains of other objects are missing meanwhile (searchFirst). The object at
// fault has no routes there until it changes.
package xds
