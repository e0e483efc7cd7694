package routes

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Table says which Route a request belongs to. It is immutable and safe for any number
// of readers; a later table shares with it all that did not change.
type Table struct {
	generation uint64
	view       view
	hosts      hostTree
	routes     dict[*Route]    // by namespace/name
	problems   dict[[]Problem] // by namespace/name, of objects that have any
}

// Generation counts the tables that a Builder has made, from 1; its empty table before
// these has 0. Generations of different Builders cannot be compared.
func (t *Table) Generation() uint64 { return t.generation }

// Empty returns a table without routes that follows the Policy of t. With adds routes
// to it.
func (t *Table) Empty() *Table { return &Table{view: t.view} }

// Len returns the number of routes.
func (t *Table) Len() int { return t.routes.len }

// Lookup returns the route of a request, nil if it has none. host is as the request has
// it, path as PathOf returns it, and the names in header are in Go's canonical form, as
// in http.Header. It does not allocate, unless the host is in upper case.
func (t *Table) Lookup(host, path string, header map[string][]string) *Route {
	if !strings.HasPrefix(path, "/") {
		return nil
	}
	m := t.hosts.find(CanonicalHost(host), path, header)
	if m == nil {
		return nil
	}
	route, _ := t.routes.get(m.hash, m.key)
	return route
}

// Route returns the route of an HTTPScaledObject, nil when nothing is served for it.
// With Policy.HostOwnership an object that is left out has a Route too, which owns its
// hosts: Lookup does not return it, and no virtual host lists it.
func (t *Table) Route(name types.NamespacedName) *Route {
	key := name.String()
	route, _ := t.routes.get(hashOf(key), key)
	return route
}

// Routes yields all routes by namespace and name. It sorts them first: use it to
// display or to initialise, not after each change.
func (t *Table) Routes() iter.Seq[*Route] {
	all := make([]*Route, 0, t.routes.len)
	for _, route := range t.routes.all() {
		all = append(all, route)
	}
	slices.SortFunc(all, func(a, b *Route) int { return compareNames(a.Name, b.Name) })
	return slices.Values(all)
}

// With returns a table that serves another route for an HTTPScaledObject, or nothing
// for it where route is nil. Its Problems and its Generation are those of t. Its cost
// depends on the hosts and paths of that object alone.
func (t *Table) With(name types.NamespacedName, route *Route) *Table {
	before := t.Route(name)
	if before == route {
		return t
	}
	next := *t
	if before != nil && (route == nil || before.spec.match != route.spec.match) {
		next.hosts = next.hosts.without(before.spec.match, t.view.owned)
	}
	if route == nil {
		key := name.String()
		next.routes = next.routes.without(hashOf(key), key)
		return &next
	}
	m := route.spec.match
	if before == nil || before.spec.match != m {
		next.hosts = next.hosts.with(m, t.view.owned)
	}
	next.routes = next.routes.with(m.hash, m.key, route)
	return &next
}

// Problems returns all current problems, sorted by object, reason and field.
func (t *Table) Problems() []Problem {
	var all []Problem
	for _, problems := range t.problems.all() {
		all = append(all, problems...)
	}
	slices.SortFunc(all, compareProblems)
	return all
}

// ProblemsOf returns the current problems of one object, sorted by reason and field.
func (t *Table) ProblemsOf(name types.NamespacedName) []Problem {
	key := name.String()
	problems, _ := t.problems.get(hashOf(key), key)
	return problems
}
