package routes

import "k8s.io/apimachinery/pkg/types"

// Policy says what objects of one namespace may do to those of another.
type Policy struct {
	// HostOwnership has each host, exact or wildcard, belong to the namespace of the
	// oldest object that names it. Objects of other namespaces are not served for it,
	// except those of namespaces that AllowedNamespacesAnnotation of that object lists.
	HostOwnership bool
	// MaxMatchesPerNamespace bounds the matches (hosts times path prefixes times
	// headers) of all objects of a namespace together. Above 0.
	MaxMatchesPerNamespace int
	// MaxWildcardMatchesPerNamespace bounds the matches (path prefixes times headers)
	// that one host lists of the wildcards above it, for all objects of a namespace
	// together. The same bound applies to "*", separately. Above 0.
	MaxWildcardMatchesPerNamespace int
	// MaxWildcardMatches bounds the same for all namespaces together. It is not
	// below MaxWildcardMatchesPerNamespace.
	MaxWildcardMatches int
}

// DefaultPolicy returns the Policy that applies unless another one is given.
func DefaultPolicy() Policy {
	return Policy{MaxMatchesPerNamespace: 20000, MaxWildcardMatchesPerNamespace: 100, MaxWildcardMatches: 500}
}

// roomy returns the number of namespaces that have room for all of their wildcards,
// however many matches the others have.
func (p *Policy) roomy() int { return p.MaxWildcardMatches / p.MaxWildcardMatchesPerNamespace }

// Namespaces are the namespaces whose objects a proxy serves; nil is all.
type Namespaces map[string]bool

// Has tells whether objects of a namespace are served.
func (n Namespaces) Has(namespace string) bool { return n == nil || n[namespace] }

// HasObject tells whether an object is served.
func (n Namespaces) HasObject(object types.NamespacedName) bool { return n.Has(object.Namespace) }

// view is how a table judges which objects are served together.
type view struct {
	// owned is Policy.HostOwnership.
	owned bool
	// roomy is the largest number of namespaces for which no object is crowded out.
	roomy int
}

// crowds tells whether a proxy of these namespaces does not serve objects that are
// crowded out.
func (v view) crowds(of Namespaces) bool { return of == nil || len(of) > v.roomy }
