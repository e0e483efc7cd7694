package routes

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Changes says how a Table differs from the one before. Each list is sorted by name.
type Changes struct {
	Routes   []RouteChange
	Clusters []ClusterChange
	// Opened are problems that are new, or whose message changed.
	Opened []Problem
	// Resolved are problems that are gone, whether or not their object is, and those of
	// before whose message changed.
	Resolved []Problem
}

// Empty tells that nothing changed.
func (c *Changes) Empty() bool {
	return len(c.Routes) == 0 && len(c.Clusters) == 0 && len(c.Opened) == 0 && len(c.Resolved) == 0
}

// RouteChange is a route that is new (Before is nil), gone (After is nil) or changed.
type RouteChange struct {
	Name          types.NamespacedName
	Before, After *Route
}

// Rerouted tells whether something changed that is in Envoy's virtual hosts: more than
// endpoints, and the shares and protocols that follow from them.
func (c *RouteChange) Rerouted() bool {
	return c.Before == nil || c.After == nil || !c.Before.sameRouting(c.After)
}

// ClusterChange is a backend that is new (Before is nil), gone (After is nil) or has
// other endpoints or another protocol. Weights and shares belong to the route.
type ClusterChange struct {
	Name          string
	Before, After *Backend
}

// VirtualHosts returns, sorted, the domains whose VirtualHost may differ between the
// table before these changes and t, the table after them. A domain that has no rules
// any more is included; one that turns out the same may be. A change of a wildcard
// affects all names below it, and a change of "*" all domains.
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
					continue // it is in the list already, with all below it
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

// addClusters adds the backends that differ between two routes of one object.
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

// addProblems adds the problems of one object that are only in before to Resolved, and
// those only in after to Opened; both arguments are sorted.
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
