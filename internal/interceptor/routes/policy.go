package routes

import "k8s.io/apimachinery/pkg/types"

// Policy says what objects of one namespace may do to those of another.
type Policy struct {
	// HostOwnership has each host, exact or wildcard, belong to the namespace of
	// the oldest object that names it. Objects of other namespaces are not served
	// for it, but for those that AllowedNamespacesAnnotation of that object names.
	HostOwnership bool
	// MaxWildcardMatchesPerNamespace bounds the matches (path prefixes times
	// headers) that one host lists of the wildcards above it, for all objects of a
	// namespace together. Those of "*" are bounded apart, by the same. Above 0.
	MaxWildcardMatchesPerNamespace int
	// MaxWildcardMatches bounds the same for all namespaces together. It is not
	// below MaxWildcardMatchesPerNamespace.
	MaxWildcardMatches int
}

// DefaultPolicy is what holds where nothing else is said.
func DefaultPolicy() Policy {
	return Policy{MaxWildcardMatchesPerNamespace: 100, MaxWildcardMatches: 500}
}

// roomy returns the number of namespaces that have room for all of their wildcards
// whatever others have.
func (p *Policy) roomy() int { return p.MaxWildcardMatches / p.MaxWildcardMatchesPerNamespace }

// Namespaces are those whose objects a proxy serves; nil is all.
type Namespaces map[string]bool

// Has tells whether objects of a namespace are served.
func (n Namespaces) Has(namespace string) bool { return n == nil || n[namespace] }

// HasObject tells whether an object is served.
func (n Namespaces) HasObject(object types.NamespacedName) bool { return n.Has(object.Namespace) }

// view is how a table judges which objects are served together.
type view struct {
	// owned is Policy.HostOwnership.
	owned bool
	// roomy is the number of namespaces up to which nobody is crowded out.
	roomy int
}

// crowds tells whether objects that are crowded out are left out for a proxy.
func (v view) crowds(of Namespaces) bool { return of == nil || len(of) > v.roomy }
