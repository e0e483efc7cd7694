// Package watch keeps a routing table that is true to a cluster: it watches
// HTTPScaledObjects, Services and EndpointSlices, and hands each table on.
//
// Nothing of the objects is kept here: each is told to a routes.Builder and
// forgotten. The first table comes when all three have been read once. From then
// on a change is in a table at once, and changes that come faster than one in a
// few milliseconds share one.
//
// An API server that is away, or refuses, leaves the last table in force. It is
// asked again every few seconds until it answers, which is logged once.
package watch
