package routes

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// site is one host pattern with one path prefix. One object takes all requests of
// another only where both are the same: a more specific host or a longer path leaves
// some.
type site struct{ host, prefix string }

// shadows has, by object, the sites where it gets no requests, each with the objects
// that get them. Few objects have any.
type shadows map[types.NamespacedName]map[site][]types.NamespacedName

// set records the objects that take all requests of m at a site; winners is empty if
// none do. It tells whether that changed anything.
func (s shadows) set(m *matcher, at site, winners []types.NamespacedName) bool {
	if slices.Equal(s[m.name][at], winners) {
		return false
	}
	if len(winners) == 0 {
		s.clear(m.name, at)
		return true
	}
	if s[m.name] == nil {
		s[m.name] = make(map[site][]types.NamespacedName)
	}
	s[m.name][at] = winners
	return true
}

func (s shadows) clear(name types.NamespacedName, at site) {
	delete(s[name], at)
	if len(s[name]) == 0 {
		delete(s, name)
	}
}

// movement is what was added or removed at a site. An object loses requests only to
// those before it, so that objects before the first one moved are not affected.
type movement struct {
	headed bool     // some objects with headers moved
	plain  *matcher // the oldest one moved without headers, if any
	last   *matcher // the one added or removed last
}

func (v *movement) add(m *matcher) {
	v.last = m
	switch {
	case len(m.headers) > 0:
		v.headed = true
	case v.plain == nil || compareAge(m, v.plain) < 0:
		v.plain = m
	}
}

// look checks the rules of a site where objects were added or removed, and calls
// changed for each object that now loses its requests there to others than before.
func (s shadows) look(at site, r *rules, moved movement, changed func(*matcher)) {
	if moved.headed {
		s.lookHeaded(at, r.headed, changed)
	}
	if moved.plain == nil {
		return
	}
	// An object without headers loses all requests to the oldest object without
	// headers.
	from, _ := slices.BinarySearchFunc(r.plain, moved.plain, compareAge)
	for i := from; i < len(r.plain); i++ {
		var winners []types.NamespacedName
		if i > 0 {
			winners = []types.NamespacedName{r.plain[0].name}
		}
		if s.set(r.plain[i], at, winners) {
			changed(r.plain[i])
		}
	}
}

// lookHeaded looks for objects whose headers are all asked for by older objects too.
func (s shadows) lookHeaded(at site, headed []*matcher, changed func(*matcher)) {
	taken := make(map[Header]types.NamespacedName)
	for _, m := range headed {
		var winners []types.NamespacedName
		lost := 0
		for _, h := range m.headers {
			winner, found := taken[Header{Name: h.Name}] // any value
			if !found {
				winner, found = taken[h]
			}
			if found {
				lost++
				if !slices.Contains(winners, winner) {
					winners = append(winners, winner)
				}
			}
		}
		if lost < len(m.headers) {
			winners = nil
		}
		for _, h := range m.headers {
			if _, found := taken[h]; !found {
				taken[h] = m.name
			}
		}
		if s.set(m, at, winners) {
			changed(m)
		}
	}
}

// problem returns the Problem of an object that gets no requests at any of its sites;
// false for other objects.
func (s shadows) problem(d *checkedObject, m *matcher) (Problem, bool) {
	lost := s[m.name]
	if len(lost) < len(m.hosts)*len(m.prefixes) {
		return Problem{}, false
	}
	var winners []types.NamespacedName
	for _, names := range lost {
		winners = append(winners, names...)
	}
	slices.SortFunc(winners, compareNames)
	winners = slices.Compact(winners)
	return d.problem(Shadowed, "spec", "every request it asks for goes to older objects that ask for the same hosts, paths and headers: %s; give it others, or delete it or them",
		listSome(winners)), true
}

// listSome lists the first few entries, and says how many more there are.
func listSome[T any](all []T) string {
	var list strings.Builder
	for i, one := range all {
		if i == mostNamed {
			fmt.Fprintf(&list, " and %d more", len(all)-mostNamed)
			break
		}
		if i > 0 {
			list.WriteString(", ")
		}
		fmt.Fprint(&list, one)
	}
	return list.String()
}
