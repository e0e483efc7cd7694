// Package watch keeps a routing table up to date with a cluster: it watches
// HTTPScaledObjects, Services and EndpointSlices, and passes each new table to its
// consumers.
//
// Objects are not kept here: each is passed to a routes.Builder and forgotten. The
// first table comes when all three kinds have been listed once. From then on a change
// is in a table at once, and changes that come faster than one in a few milliseconds
// share one.
//
// While the API server does not answer, or refuses, the last table stays in force. The
// request is repeated every few seconds; the beginning and the end of the trouble are
// logged once.
//
// An API server that is silent ends no watch. So the watches can be renewed every few
// seconds, and Watch.LastSeen tells when all of them were last granted.
package watch
