// Package routes turns HTTPScaledObjects, Services and EndpointSlices into one
// routing table, the same for the embedded proxy and for Envoy. It is pure: it
// serves nothing, watches nothing and has no clock. A Builder is told which objects
// were created, changed and deleted; Commit makes an immutable Table of them and says
// what changed. Its cost depends on the size of the change, not on the number of
// objects.
//
// # Which object a request belongs to
//
// The host decides first: the objects that name it, then those with a wildcard
// it ends in, from the longest, then those for any host. If no object of one of these
// wants the request, it falls through to the next. Within a host the longest path
// prefix comes first, within a prefix objects with headers before those without, and
// among equals the older object, by creationTimestamp and then by namespace and name.
// Any one of an object's headers suffices.
//
//   - Hosts are compared without case, port and one trailing dot. "*" is any
//     host, "*.example.com" is every name below example.com, however deep, but
//     not example.com itself; a star is allowed nowhere else. An IPv6 address may
//     be written with or without brackets and is compared as text, in the form
//     of RFC 5952.
//   - Paths are compared as they were sent, up to the first "?": nothing is
//     decoded, merged or resolved, so %2F is no slash, and ".." and "//" are
//     segments like others. A prefix ends on a segment boundary: /foo is for /foo,
//     /foo/ and /foo/bar and not for /foobar. Slashes at the end of a prefix are
//     ignored (/foo/ is /foo), a missing one at its beginning is added, and "/" or
//     no prefix at all is any path. A request whose target is no path (OPTIONS *,
//     CONNECT) belongs to no object.
//   - Header names are compared without case, values exactly. Of a
//     header sent more than once, any one value suffices; values are not split at
//     commas. An empty value asks only that the header is present.
//
// In Envoy this is a virtual host per domain with ignore_port_in_host_matching
// and strip_trailing_host_dot, path_separated_prefix (prefix "/" for any path),
// no normalize_path and no merge_slashes, and exact or present header matches;
// VirtualHost lists the matches in order, followed by those of wider domains, as Envoy
// does not fall through from one virtual host to another.
//
// # Limits between namespaces
//
// A Policy bounds what objects of one namespace do to those of another: a host may
// belong to a namespace, and wildcards have budgets. Both are judged among the
// namespaces that a proxy serves: for Lookup these are all, for VirtualHost those that
// it is given. The matches of all objects of a namespace are bounded, too; an object
// past that bound is in no table. An object that is left out there still has a Route, unless its own
// namespace has no room for it.
//
// # What keeps serving
//
// Each object is checked alone. One that cannot be served as it is (a bad host,
// path, header or target) keeps its last good form, if this Builder knew one,
// and is left out otherwise. A split that cannot be served (malformed, weights
// adding up to 0, an unknown Service or port) leaves the last good split of the
// object in force or, without one, the stable Service alone. Both are reported as
// Problems, and affect no other object.
package routes
