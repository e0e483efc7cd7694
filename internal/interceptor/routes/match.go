package routes

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// matcher says which requests one object wants. It is immutable, and stays the
// same one while weights and endpoints come and go.
type matcher struct {
	name     types.NamespacedName
	key      string // namespace/name, and its hash, to get the Route by
	hash     uint64
	created  time.Time
	hosts    []string // patterns; anyHost when the object names none
	prefixes []string // anyPath when the object names none
	headers  []Header
	wanted   []wantedHeader
	total    int // countMatches of these
	// wildcards are the hosts that it is charged for.
	wildcards []string
	// allowed are the namespaces whose objects may be served for hosts that this
	// object owns, sorted.
	allowed []string
	// crowded tells that proxies of many namespaces have no room for it.
	crowded bool
	// leftOut tells that there is no room for it in any proxy. It can own its hosts
	// nevertheless.
	leftOut bool
}

func newMatcher(name types.NamespacedName, created time.Time, hosts, prefixes []string, headers []Header, allowed []string) *matcher {
	key := name.String()
	return &matcher{
		name: name, key: key, hash: hashOf(key), created: created,
		hosts: hosts, prefixes: prefixes, headers: headers, wanted: wanted(headers), total: countMatches(hosts, prefixes, headers), wildcards: wildcards(hosts), allowed: allowed,
	}
}

func (m *matcher) equal(other *matcher) bool {
	return m == other || m != nil && other != nil && m.name == other.name && m.created.Equal(other.created) &&
		slices.Equal(m.hosts, other.hosts) && slices.Equal(m.prefixes, other.prefixes) && slices.Equal(m.headers, other.headers) &&
		slices.Equal(m.allowed, other.allowed) && m.crowded == other.crowded && m.leftOut == other.leftOut
}

// compareAge orders objects that want the same requests: the older first.
func compareAge(a, b *matcher) int {
	return cmp.Or(
		a.created.Compare(b.created),
		strings.Compare(a.name.Namespace, b.name.Namespace),
		strings.Compare(a.name.Name, b.name.Name),
	)
}

// rules are the objects of one host and path prefix, older first.
type rules struct {
	headed []*matcher // with headers; they come before plain
	plain  []*matcher // without headers; only the first gets requests
}

func (r *rules) empty() bool { return len(r.headed) == 0 && len(r.plain) == 0 }

func (r *rules) find(header map[string][]string) *matcher {
	// Objects of one host and path mostly ask for the same header.
	var key string
	var values []string
	for _, m := range r.headed {
		for i := range m.wanted {
			w := &m.wanted[i]
			if w.key != key {
				key, values = w.key, header[w.key]
			}
			if w.in(values) {
				return m
			}
		}
	}
	if len(r.plain) > 0 {
		return r.plain[0]
	}
	return nil
}

// kind returns the one of the two lists that m belongs to.
func (r *rules) kind(m *matcher) *[]*matcher {
	if len(m.headers) > 0 {
		return &r.headed
	}
	return &r.plain
}

func (r *rules) insert(m *matcher) {
	list := r.kind(m)
	*list = withMatcher(*list, m)
}

func (r *rules) remove(m *matcher) {
	list := r.kind(m)
	*list = withoutMatcher(*list, m)
}

// withMatcher and withoutMatcher do not change the list, oldest first, in place: older
// tables use it.
func withMatcher(list []*matcher, m *matcher) []*matcher {
	index, _ := slices.BinarySearchFunc(list, m, compareAge)
	grown := make([]*matcher, 0, len(list)+1)
	return append(append(append(grown, list[:index]...), m), list[index:]...)
}

func withoutMatcher(list []*matcher, m *matcher) []*matcher {
	index, found := slices.BinarySearchFunc(list, m, compareAge)
	if !found {
		return list
	}
	if len(list) == 1 {
		return nil
	}
	shrunk := make([]*matcher, 0, len(list)-1)
	return append(append(shrunk, list[:index]...), list[index+1:]...)
}
