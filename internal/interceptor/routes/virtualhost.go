package routes

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// VirtualHost is all that a request of one domain may meet, in order: the first
// match that fits is the right one. It is for proxies that choose a domain once,
// as Envoy does.
type VirtualHost struct {
	// Domain is a host, *.<name> for all names below it, or * for any.
	Domain string
	// Matches are the rules of the domain itself and then those it falls
	// through to, without those that no request can reach.
	Matches []Match
}

// Match sends requests of a path, and one of the headers if there are any, to a
// route.
type Match struct {
	// PathPrefix is "/" for any path; others have no slash at the end and end
	// on a segment border (Envoy: path_separated_prefix).
	PathPrefix string
	// Headers suffice each; none when none is asked for.
	Headers []Header
	Route   *Route
}

// Equal tells whether both send the same requests to the same backends in the same
// shares. What else their objects ask for, or have room for, is no part of it.
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

// VirtualHosts yields the virtual hosts of all domains, by name, with the routes
// that a proxy of these namespaces serves. Those left without any match of their own
// are left out.
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
// is judged among its own. There is none when none of these names the domain itself:
// its requests meet another domain then.
func (t *Table) VirtualHost(domain string, namespaces Namespaces) (VirtualHost, bool) {
	f := flattening{table: t, whole: make(map[string]bool), listed: make(map[listing]bool)}
	f.add(t.hosts.at(domain).of(namespaces, t.view))
	if len(f.matches) == 0 {
		return VirtualHost{}, false
	}
	for _, wider := range wider(domain) {
		if f.whole[anyPath] {
			break
		}
		f.add(t.hosts.at(wider).of(namespaces, t.view))
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

// flattening lists rules in the order in which they are looked at.
type flattening struct {
	table   *Table
	matches []Match
	// whole are the prefixes that have a match without headers, past which no
	// request gets.
	whole map[string]bool
	// listed are the matches there are: an object that names a host and a
	// wildcard over it would come twice.
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

// taken tells whether all requests of a prefix are taken before.
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
