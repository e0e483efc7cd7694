package routes

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// levelsPerMatch is how many labels of a host, or segments of a path prefix, one match
// stands for, as the table has a node for each of them.
const levelsPerMatch = 8

// countMatches returns hosts times path prefixes times headers, which is what an object
// costs. Hosts and prefixes of more than levelsPerMatch levels count more than once.
func countMatches(hosts, prefixes []string, headers []Header) int {
	return countLevels(hosts, ".") * countLevels(prefixes, "/") * max(1, len(headers))
}

func countLevels(names []string, separator string) int {
	total := 0
	for _, name := range names {
		levels := strings.Count(strings.TrimPrefix(name, separator), separator) + 1
		total += (levels + levelsPerMatch - 1) / levelsPerMatch
	}
	return max(1, total)
}

// matchLimit bounds the matches of the objects of each namespace. Which objects have
// room depends on the specs of their namespace alone: an object takes the place of none
// that is older, and all interceptors decide the same.
type matchLimit struct {
	most       int
	namespaces map[string]*matchCount
}

// matchCount counts the matches of one namespace.
type matchCount struct {
	objects []*object // oldest first
	asked   int       // matches of all objects
	over    bool      // whether that was more than the limit when it was last decided
}

// matchRequest is what an object asks for; without matches it asks for nothing.
type matchRequest struct {
	created time.Time
	matches int
}

// MostMatches returns the matches that the objects of one namespace ask for, of the
// namespace with most. Policy.MaxMatchesPerNamespace is the limit.
func (b *Builder) MostMatches() (most int) {
	for _, n := range b.limit.namespaces {
		most = max(most, n.asked)
	}
	return most
}

// limitMatches decides which objects have room in their namespaces, if what any object
// asks for has changed. Those for which that changes become dirty. The cost for a
// namespace that has room for all does not grow with the number of its objects.
func (c *commit) limitMatches() {
	changed := make(map[string]struct{})
	for o := range c.dirty {
		if failure := c.attempt(countItsMatches, httpScaledObjectKind, o.name, func() {
			if c.limit.request(o, c.asked(o)) {
				changed[o.name.Namespace] = struct{}{}
			}
		}); failure != "" {
			c.uncharged[o] = failure
		}
	}
	for namespace := range changed {
		for _, o := range c.limit.decide(namespace) {
			c.dirty[o] = struct{}{}
		}
	}
}

// request records what an object asks for; nil is nothing. It tells whether that is
// something else than before.
func (l *matchLimit) request(o *object, m *matcher) bool {
	var next matchRequest
	if m != nil {
		next = matchRequest{m.created, m.total}
	}
	before := o.request
	if next.matches == before.matches && next.created.Equal(before.created) {
		return false
	}
	n := l.namespaces[o.name.Namespace]
	if n == nil {
		n = &matchCount{}
		l.namespaces[o.name.Namespace] = n
	}
	if before.matches > 0 {
		at := n.find(o, before)
		n.objects = slices.Delete(n.objects, at, at+1)
	}
	if next.matches > 0 {
		n.objects = slices.Insert(n.objects, n.find(o, next), o)
	} else {
		o.noRoom = false
	}
	n.asked += next.matches - before.matches
	o.request = next
	return true
}

// find returns where an object with this request belongs.
func (n *matchCount) find(o *object, r matchRequest) int {
	at, _ := slices.BinarySearchFunc(n.objects, r, func(other *object, r matchRequest) int {
		return cmp.Or(other.request.created.Compare(r.created), strings.Compare(other.name.Name, o.name.Name))
	})
	return at
}

// decide gives the objects of a namespace room, the oldest first, and returns those for
// which that has changed.
func (l *matchLimit) decide(namespace string) (changed []*object) {
	n := l.namespaces[namespace]
	if len(n.objects) == 0 {
		delete(l.namespaces, namespace)
	}
	was := n.over
	if n.over = n.asked > l.most; !n.over && !was {
		return nil
	}
	used := 0
	for _, o := range n.objects {
		fits := used+o.request.matches <= l.most
		if fits {
			used += o.request.matches
		}
		if o.noRoom == fits {
			o.noRoom = !fits
			changed = append(changed, o)
		}
	}
	return changed
}

// overLimit returns the Problem of an object for whose matches its namespace has no
// room.
func (l *matchLimit) overLimit(o *object) Problem {
	return o.checked.problem(OverBudget, "spec",
		"the objects of this namespace ask for more than %d matches (hosts times path prefixes times headers; --max-matches-per-namespace), and this one, for which older ones leave no room, asks for %d; it is served nothing until there is room. Name fewer hosts, or delete objects",
		l.most, o.request.matches)
}
