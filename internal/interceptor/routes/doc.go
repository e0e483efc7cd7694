// Package routes turns HTTPScaledObjects, Services and EndpointSlices into one
// routing table, the same for the embedded proxy and for Envoy. It is pure: it
// serves nothing, watches nothing and has no clock. A Builder is told what was
// made, changed and deleted; Commit makes an immutable Table of it, at a cost
// that follows what changed and not what is there, and says what changed.
//
// # Which object a request belongs to
//
// The host decides first: the objects that name it, then those with a wildcard
// it ends in, from the longest, then those for any host. A host none of whose
// objects wants the request falls through to the next of these. Within a host
// the longest path prefix comes first, within a prefix objects with headers
// before those without, and among equals the older object, by creationTimestamp
// and then by namespace and name. Any one of an object's headers suffices.
//
//   - Hosts are compared without case, port and one trailing dot. "*" is any
//     host, "*.example.com" is every name below example.com, however deep, but
//     not example.com itself; a star stands nowhere else. An IPv6 address may
//     be written with or without brackets and is compared as text, in the form
//     of RFC 5952.
//   - Paths are compared as they were sent, up to the first "?": nothing is
//     decoded, merged or resolved, so %2F is no slash, and ".." and "//" are
//     segments like others. A prefix ends on a segment border: /foo is for /foo,
//     /foo/ and /foo/bar and not for /foobar. Slashes at the end of a prefix say
//     nothing (/foo/ is /foo), one missing at its beginning is put there, and
//     "/" or none at all is any path. A request whose target is no path
//     (OPTIONS *, CONNECT) belongs to nobody.
//   - Header names are compared without case, values exactly. Of a
//     header sent more than once, any one value suffices; values are not taken
//     apart at commas. An empty value asks for the header alone, whatever its
//     value.
//
// In Envoy this is a virtual host per domain with ignore_port_in_host_matching
// and strip_trailing_host_dot, path_separated_prefix (prefix "/" for any path),
// no normalize_path and no merge_slashes, and exact or present header matches;
// VirtualHost lists them in order, with those that Envoy would have to fall
// through to.
//
// # Who may be served beside whom
//
// A Policy bounds what objects of one namespace do to those of another: a host may
// belong to a namespace, and wildcards have budgets. Both are judged among the
// namespaces that a proxy serves: Lookup is for all of them, VirtualHost for those
// that it is asked for. An object that is left out there has a Route nevertheless,
// unless its own namespace has no room for it.
//
// # What keeps serving
//
// Each object is checked alone. One that cannot be served as it is (a bad host,
// path, header or target) keeps its last good form, if this Builder knew one,
// and is left out otherwise. A split that cannot be served (malformed, weights
// adding up to 0, an unknown Service or port) leaves the last good split of the
// object in force, or at start the stable service alone. Both are told as
// Problems, and harm no other object.
package routes
