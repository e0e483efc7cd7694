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
}

func newMatcher(name types.NamespacedName, created time.Time, hosts, prefixes []string, headers []Header) *matcher {
	key := name.String()
	return &matcher{
		name: name, key: key, hash: hashOf(key), created: created,
		hosts: hosts, prefixes: prefixes, headers: headers, wanted: wanted(headers),
	}
}

func (m *matcher) equal(other *matcher) bool {
	return m == other || m != nil && other != nil && m.name == other.name && m.created.Equal(other.created) &&
		slices.Equal(m.hosts, other.hosts) && slices.Equal(m.prefixes, other.prefixes) && slices.Equal(m.headers, other.headers)
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
	headed []*matcher // with headers; they come before
	plain  []*matcher // without; only the first one gets requests
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

// insert and remove leave the old list as it is: older tables have it.
func (r *rules) insert(m *matcher) {
	list := r.kind(m)
	index, _ := slices.BinarySearchFunc(*list, m, compareAge)
	grown := make([]*matcher, 0, len(*list)+1)
	*list = append(append(append(grown, (*list)[:index]...), m), (*list)[index:]...)
}

func (r *rules) remove(m *matcher) {
	list := r.kind(m)
	index, found := slices.BinarySearchFunc(*list, m, compareAge)
	if !found {
		return
	}
	if len(*list) == 1 {
		*list = nil
		return
	}
	shrunk := make([]*matcher, 0, len(*list)-1)
	*list = append(append(shrunk, (*list)[:index]...), (*list)[index+1:]...)
}
