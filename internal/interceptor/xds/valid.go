package xds

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// InvalidForEnvoy says on an HTTPScaledObject that every Envoy would refuse it. The embedded proxy
// serves it. All kedify-proxies serve its last valid form with the current split, or nothing if
// there was none. After a restart of the interceptor, only the kedify-proxies that had the form
// serve it.
const InvalidForEnvoy routes.Reason = "InvalidForEnvoy"

// invalidObjects are the objects that no Envoy is sent as they are, by name. The map is
// not changed once streams may have it.
type invalidObjects map[types.NamespacedName]invalidObject

// invalidObject is an object that is invalid: its Problem, and its current form.
type invalidObject struct {
	problem routes.Problem
	route   *routes.Route
}

// admit returns a table of which Envoy accepts every object, and how it differs from
// the table that admit returned before: an object that is invalid has its last valid form
// in it, or is left out when there is none. admit looks only at what changed. It is called
// with mu held.
func (s *Server) admit(table *routes.Table, changes routes.Changes) (_ *routes.Table, _ routes.Changes, opened, resolved []routes.Problem) {
	before := s.now.table
	if before == nil {
		before, changes = &routes.Table{}, routes.Changes{}
		for route := range table.Routes() {
			changes.Routes = append(changes.Routes, routes.RouteChange{Name: route.Name, After: route})
		}
	}
	// Without an invalid object, admitted is the table that the embedded proxy has.
	admitted, onlyInvalid := table, len(s.now.invalid) == 0
	if !onlyInvalid {
		admitted = before
	}
	adjusted := routes.Changes{Clusters: changes.Clusters}
	invalid, own := s.now.invalid, false
	change := func() invalidObjects {
		if !own {
			own = true
			if invalid = maps.Clone(invalid); invalid == nil {
				invalid = make(invalidObjects)
			}
		}
		return invalid
	}
	for _, c := range changes.Routes {
		was, known := invalid[c.Name]
		problem, err := s.check(c.After, before.Route(c.Name))
		valid := err == nil
		if known && (valid || was.problem != problem) {
			resolved = append(resolved, was.problem)
			delete(change(), c.Name)
		}
		if !valid && was.problem != problem {
			opened = append(opened, problem)
			if panicked := (*panicError)(nil); errors.As(err, &panicked) {
				s.log.Error("a panic while translating an HTTPScaledObject; this is an error of the interceptor",
					"httpscaledobject", c.Name.String(), "panic", panicked.cause, "stack", panicked.stack)
			}
		}
		if !valid {
			change()[c.Name] = invalidObject{problem, c.After}
		}
		c.Before = before.Route(c.Name)
		if !valid {
			c.After = s.lastValid(c.Before, c.After)
		}
		if !valid || known {
			adjusted.Clusters = append(adjusted.Clusters, clustersOf(c.Before)...)
			adjusted.Clusters = append(adjusted.Clusters, clustersOf(c.After)...)
		}
		if !valid || !onlyInvalid {
			admitted = admitted.With(c.Name, c.After)
		}
		adjusted.Routes = append(adjusted.Routes, c)
	}
	if s.now.invalid = invalid; len(invalid) == 0 {
		admitted = table
	}
	return admitted, adjusted, opened, resolved
}

// check fails for a route that is not valid, and returns its Problem.
func (s *Server) check(route, before *routes.Route) (problem routes.Problem, err error) {
	if route == nil || before != nil && sameRouting(before, route) {
		return problem, nil
	}
	if err = s.validated(route); err == nil {
		return problem, nil
	}
	field := "spec"
	if invalid := (*envoy.InvalidError)(nil); errors.As(err, &invalid) {
		field = invalid.Field
	}
	consequence := "kedify-proxies have no routes of this object, except one that has its last valid form from another interceptor"
	if s.lastValid(before, route) != nil {
		consequence = "kedify-proxies go on with its last valid form, and follow its split"
	}
	return routes.Problem{
		Object: route.Name, UID: route.UID, Reason: InvalidForEnvoy, Field: field,
		Message: fmt.Sprintf("%s; %s until it changes, and the interceptor's own proxy serves it as it is", oneLine(err.Error()), consequence),
	}, err
}

// lastValid returns what Envoys are sent in place of an invalid route: the previous form
// of the same object, with the current split, so that an abort reaches the Envoys; if the
// split itself is invalid, with the previous split and the current endpoints. It returns
// nil if the object has no previous form.
func (s *Server) lastValid(before, invalid *routes.Route) *routes.Route {
	if before == nil || before.UID != invalid.UID {
		return nil
	}
	if valid := before.WithSplitOf(invalid); s.validated(valid) == nil {
		return valid
	}
	return before.WithEndpointsOf(invalid)
}

func clustersOf(route *routes.Route) []routes.ClusterChange {
	if route == nil {
		return nil
	}
	all := make([]routes.ClusterChange, len(route.Backends))
	for i := range route.Backends {
		all[i].Name = route.Backends[i].Cluster
	}
	return all
}

// pass reports Problems that do not come from a claim of a stream.
func (r *refusals) pass(opened, resolved []routes.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.say(opened, resolved)
}
