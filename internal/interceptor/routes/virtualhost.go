package routes

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// VirtualHost has all rules for the requests of one domain, in order: the first match
// that fits is the right one. It is for proxies that choose a domain once, as Envoy
// does.
type VirtualHost struct {
	// Domain is a host, *.<name> for all names below it, or * for any.
	Domain string
	// Matches are the rules of the domain itself and then those it falls through to,
	// without rules that no request can reach.
	Matches []Match
}

// Match sends requests with a path and, if there are headers, any one of these to a
// route.
type Match struct {
	// PathPrefix is "/" for any path; others have no slash at the end and end
	// on a segment border (Envoy: path_separated_prefix).
	PathPrefix string
	// Headers are those of which any one suffices; empty if none is needed.
	Headers []Header
	Route   *Route
}

// Equal tells whether both send the same requests to the same backends in the same
// shares. It compares nothing else of their objects.
func (m Match) Equal(other Match) bool {
	return m.PathPrefix == other.PathPrefix && slices.Equal(m.Headers, other.Headers) && m.Route.sameSharing(other.Route)
}

// Domains returns the domains that have rules of their own, sorted.
func (t *Table) Domains() []string {
	var all []string
	t.hosts.patterns("", func(pattern string) { all = append(all, pattern) })
	slices.Sort(all)
	return all
}

// VirtualHosts yields the virtual hosts of all domains, by name, with the routes that a
// proxy of these namespaces serves. It skips domains without a match of their own.
func (t *Table) VirtualHosts(namespaces Namespaces) iter.Seq[VirtualHost] {
	return func(yield func(VirtualHost) bool) {
		for _, domain := range t.Domains() {
			if host, ok := t.VirtualHost(domain, namespaces); ok && !yield(host) {
				return
			}
		}
	}
}

// VirtualHost returns the virtual host of a domain, with the routes that a proxy of
// these namespaces serves: which objects may be served for a host, and which have room,
// is judged among these namespaces. It is false if no object served there names the
// domain itself: requests of the domain then match another one.
func (t *Table) VirtualHost(domain string, namespaces Namespaces) (VirtualHost, bool) {
	f := flattening{table: t, whole: make(map[string]bool), listed: make(map[listing]bool)}
	f.add(t.hosts.at(domain).servedTo(namespaces, t.view))
	if len(f.matches) == 0 {
		return VirtualHost{}, false
	}
	for _, wider := range wider(domain) {
		if f.whole[anyPath] {
			break
		}
		f.add(t.hosts.at(wider).servedTo(namespaces, t.view))
	}
	return VirtualHost{Domain: domain, Matches: f.matches}, true
}

// wider returns the patterns that a domain falls through to, nearest first.
func wider(domain string) []string {
	if domain == anyHost {
		return nil
	}
	var all []string
	for name, _ := splitPattern(domain); ; {
		_, rest, more := strings.Cut(name, ".")
		if !more {
			return append(all, anyHost)
		}
		all = append(all, "*."+rest)
		name = rest
	}
}

// flattening lists rules in the order in which a proxy checks them.
type flattening struct {
	table   *Table
	matches []Match
	// whole are the prefixes that have a match without headers, past which no
	// request gets.
	whole map[string]bool
	// listed are the matches so far: an object that names a host and a wildcard above
	// it would be listed twice otherwise.
	listed map[listing]bool
}

type listing struct {
	prefix string
	m      *matcher
}

func (f *flattening) add(paths *pathTree) {
	all := paths.collect("", nil)
	slices.SortFunc(all, func(a, b prefixed) int {
		return cmp.Or(cmp.Compare(len(b.prefix), len(a.prefix)), cmp.Compare(a.prefix, b.prefix))
	})
	for _, at := range all {
		f.addRules(at.prefix, at.rules)
	}
}

func (f *flattening) addRules(prefix string, r *rules) {
	if f.taken(prefix) {
		return
	}
	for _, m := range r.headed {
		f.addMatch(prefix, m)
	}
	for _, m := range r.plain {
		if f.addMatch(prefix, m) {
			f.whole[prefix] = true
			return
		}
	}
}

func (f *flattening) addMatch(prefix string, m *matcher) bool {
	if f.listed[listing{prefix, m}] {
		return false
	}
	f.listed[listing{prefix, m}] = true
	route, _ := f.table.routes.get(m.hash, m.key)
	f.matches = append(f.matches, Match{PathPrefix: prefix, Headers: m.headers, Route: route})
	return true
}

// taken tells whether matches listed before take all requests of a prefix.
func (f *flattening) taken(prefix string) bool {
	if f.whole[anyPath] {
		return true
	}
	for ; prefix != "" && prefix != anyPath; prefix = prefix[:strings.LastIndexByte(prefix, '/')] {
		if f.whole[prefix] {
			return true
		}
	}
	return false
}
