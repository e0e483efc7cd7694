package routes

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Changes is what makes a Table differ from the one before. All lists are in
// order of their names.
type Changes struct {
	Routes   []RouteChange
	Clusters []ClusterChange
	// Opened are problems that were not there before, in these words.
	Opened []Problem
	// Resolved are problems that are gone, with their object or without.
	Resolved []Problem
}

// Empty tells that nothing changed.
func (c *Changes) Empty() bool {
	return len(c.Routes) == 0 && len(c.Clusters) == 0 && len(c.Opened) == 0 && len(c.Resolved) == 0
}

// RouteChange is a route that is new (Before is nil), gone (After is nil) or
// another.
type RouteChange struct {
	Name          types.NamespacedName
	Before, After *Route
}

// Rerouted tells that more changed than endpoints, and the shares and protocols
// that follow from them: something that Envoy has in its virtual hosts.
func (c *RouteChange) Rerouted() bool {
	return c.Before == nil || c.After == nil || !c.Before.sameRouting(c.After)
}

// ClusterChange is a backend that is new (Before is nil), gone (After is nil) or
// has other endpoints or another protocol. Weights and shares are the route's.
type ClusterChange struct {
	Name          string
	Before, After *Backend
}

// VirtualHosts returns the domains whose VirtualHost may differ from before in
// the table that these changes led to, sorted: one that has no rules any more is
// among them, one that turns out the same may be. A change of a wildcard touches
// all names below it, and one of any host all.
func (c *Changes) VirtualHosts(t *Table) []string {
	touched := make(map[string]bool)
	for i := range c.Routes {
		change := &c.Routes[i]
		if !change.Rerouted() {
			continue
		}
		for _, route := range []*Route{change.Before, change.After} {
			if route == nil {
				continue
			}
			for _, pattern := range route.Hosts() {
				if touched[pattern] {
					continue // and all below it
				}
				touched[pattern] = true
				if name, wild := splitPattern(pattern); wild {
					t.hosts.named(name).patterns(name, func(below string) { touched[below] = true })
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(touched))
}

// addClusters notes which backends differ between two routes of one object.
func (c *Changes) addClusters(before, after *Route) {
	old, now := before.backends(), after.backends()
	for i := range old {
		b := &old[i]
		if a := findBackend(now, b.Service); a == nil || !a.Equal(b.Endpoints) {
			c.Clusters = append(c.Clusters, ClusterChange{b.Cluster, b, a})
		}
	}
	for i := range now {
		if a := &now[i]; findBackend(old, a.Service) == nil {
			c.Clusters = append(c.Clusters, ClusterChange{a.Cluster, nil, a})
		}
	}
}

func (r *Route) backends() []Backend {
	if r == nil {
		return nil
	}
	return r.Backends
}

func findBackend(backends []Backend, service string) *Backend {
	for i := range backends {
		if backends[i].Service == service {
			return &backends[i]
		}
	}
	return nil
}

// addProblems notes which problems of one object are there only before or only
// after; both are sorted.
func (c *Changes) addProblems(before, after []Problem) {
	for _, p := range before {
		if !slices.Contains(after, p) {
			c.Resolved = append(c.Resolved, p)
		}
	}
	for _, p := range after {
		if !slices.Contains(before, p) {
			c.Opened = append(c.Opened, p)
		}
	}
}

func (c *Changes) sort() {
	slices.SortFunc(c.Routes, func(a, b RouteChange) int { return compareNames(a.Name, b.Name) })
	slices.SortFunc(c.Clusters, func(a, b ClusterChange) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Opened, compareProblems)
	slices.SortFunc(c.Resolved, compareProblems)
}
