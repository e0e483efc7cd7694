package xds

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// RefusedByEnvoy is the reason of Problems of HTTPScaledObjects that an Envoy
// does not take. What it took of them before stays.
const RefusedByEnvoy routes.Reason = "RefusedByEnvoy"

// maxReason bounds how much of Envoy's words is told.
const maxReason = 400

// refusal is an HTTPScaledObject that an Envoy refused in a virtual host. It is
// immutable.
type refusal struct {
	route   *routes.Route // as it was refused
	good    *routes.Route // as it was accepted before; nil if it never was
	problem routes.Problem
	// again tells that the object has changed, and is tried again since a place
	// in the journal.
	again bool
	since uint64
}

// replaces tells whether the form that was accepted can stand in for another.
func (r *refusal) replaces(current *routes.Route) bool {
	return r.good != nil && current != nil &&
		slices.Equal(r.good.Hosts(), current.Hosts()) && slices.Equal(r.good.PathPrefixes(), current.PathPrefixes()) &&
		slices.Equal(r.good.Headers(), current.Headers())
}

// clusterRefusal is one whose cluster or endpoints an Envoy refused.
type clusterRefusal struct {
	kind    kind // cds or eds
	problem routes.Problem
	// again tells that what was refused is another now.
	again bool
}

// refusals are by object. They are never changed: a new map takes their place.
type refusals map[types.NamespacedName]*refusal

// virtualHost is the table's, with the last accepted form of objects that are
// refused, and without those that have none which fits.
func (r refusals) virtualHost(table *routes.Table, domain string, keep func(types.NamespacedName) bool) (routes.VirtualHost, bool) {
	if len(r) == 0 {
		return table.VirtualHost(domain, keep)
	}
	vh, found := table.VirtualHost(domain, func(object types.NamespacedName) bool {
		refused := r[object]
		return keep(object) && (refused == nil || refused.again || refused.replaces(table.Route(object)))
	})
	if !found {
		return vh, false
	}
	vh.Matches = slices.Clone(vh.Matches)
	for i := range vh.Matches {
		m := &vh.Matches[i]
		if refused := r[m.Route.Name]; refused != nil && !refused.again {
			m.Route = refused.good
		}
	}
	return vh, true
}

// refuse quarantines objects that were found in a virtual host which an Envoy
// refuses, as they were in it. An object that has changed since is left alone.
func (s *Server) refuse(found []refusal, domain string) {
	var opened, resolved []routes.Problem
	s.mu.Lock()
	now := maps.Clone(s.now.refusals)
	if now == nil {
		now = make(refusals)
	}
	lifted := routes.Changes{}
	for _, f := range found {
		name := f.route.Name
		current := routes.RouteChange{Name: name, Before: f.route, After: s.now.table.Route(name)}
		if current.Rerouted() {
			continue
		}
		if before := now[name]; before != nil {
			if !before.again {
				continue // another Envoy was first
			}
			if f.good == nil {
				f.good = before.good
			}
			resolved = append(resolved, before.problem)
		}
		f.problem.Message = fmt.Sprintf("Envoy refuses the routes of this object: %s; %s", f.problem.Message, f.consequence())
		now[name] = &f
		opened = append(opened, f.problem)
		lifted.Routes = append(lifted.Routes, routes.RouteChange{Name: name, Before: f.route})
	}
	s.now.refusals = now
	for _, touched := range append(lifted.VirtualHosts(s.now.table), domain) {
		s.journal.add(change{kind: aDomain, name: touched})
	}
	s.wakeAll()
	s.mu.Unlock()
	s.tell(opened, resolved)
}

func (r *refusal) consequence() string {
	if r.replaces(r.route) {
		return "its routes stay as they were until it changes"
	}
	return "it is left out of Envoy until it changes"
}

// refuseCluster notes an object whose cluster, or whose endpoints, an Envoy
// refuses.
func (s *Server) refuseCluster(k kind, cluster, message string) {
	var opened, resolved []routes.Problem
	s.mu.Lock()
	if route := routeOf(s.now.table, cluster); route != nil {
		p := routes.Problem{
			Object: route.Name, UID: route.UID, Reason: RefusedByEnvoy, Field: "spec.scaleTargetRef", Message: message,
		}
		before := s.clusters[cluster]
		if before == nil || before.again || before.problem != p {
			s.clusters[cluster] = &clusterRefusal{kind: k, problem: p}
			if before != nil {
				resolved = append(resolved, before.problem)
			}
			opened = append(opened, p)
		}
	}
	s.mu.Unlock()
	s.tell(opened, resolved)
}

// liftRefusals has what changed tried again, and returns the problems that went
// with their objects. It is called with mu held.
func (s *Server) liftRefusals(changes routes.Changes) []routes.Problem {
	var resolved []routes.Problem
	if len(s.now.refusals) > 0 {
		now := maps.Clone(s.now.refusals)
		for i := range changes.Routes {
			c := &changes.Routes[i]
			refused := now[c.Name]
			switch {
			case refused == nil || !c.Rerouted():
			case c.After == nil:
				resolved = append(resolved, refused.problem)
				delete(now, c.Name)
			default:
				tried := *refused
				tried.again, tried.since = true, s.journal.end()
				now[c.Name] = &tried
			}
		}
		s.now.refusals = now
	}
	if len(s.clusters) > 0 {
		for i := range changes.Clusters {
			c := &changes.Clusters[i]
			switch refused := s.clusters[c.Name]; {
			case refused == nil:
			case c.After == nil:
				resolved = append(resolved, refused.problem)
				delete(s.clusters, c.Name)
			case refused.kind == eds || c.Before == nil || c.Before.Protocol != c.After.Protocol:
				refused.again = true
			}
		}
	}
	return resolved
}

// triedAgain returns the objects whose refusal may be over.
func (s *Server) triedAgain() []*refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*refusal
	for _, refused := range s.now.refusals {
		if refused.again {
			all = append(all, refused)
		}
	}
	return all
}

// resolve ends a refusal that is tried again, unless something happened to it
// since.
func (s *Server) resolve(refused *refusal) {
	s.mu.Lock()
	name := refused.route.Name
	if s.now.refusals[name] != refused {
		s.mu.Unlock()
		return
	}
	now := maps.Clone(s.now.refusals)
	delete(now, name)
	s.now.refusals = now
	s.mu.Unlock()
	s.tell(nil, []routes.Problem{refused.problem})
}

// clustersAccepted ends the refusals of clusters, or endpoints, that are tried
// again.
func (s *Server) clustersAccepted(k kind, names []string) {
	var resolved []routes.Problem
	s.mu.Lock()
	if len(s.clusters) > 0 {
		for _, name := range names {
			if refused := s.clusters[name]; refused != nil && refused.again && refused.kind == k {
				resolved = append(resolved, refused.problem)
				delete(s.clusters, name)
			}
		}
	}
	s.mu.Unlock()
	s.tell(nil, resolved)
}

func (s *Server) refusedObjects() int {
	objects := make(map[types.NamespacedName]bool)
	for name := range s.now.refusals {
		objects[name] = true
	}
	for _, refused := range s.clusters {
		objects[refused.problem.Object] = true
	}
	return len(objects)
}

func (s *Server) tell(opened, resolved []routes.Problem) {
	if len(opened) == 0 && len(resolved) == 0 {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	for _, p := range opened {
		s.log.Warn("an HTTPScaledObject is refused by Envoy", "httpscaledobject", p.Object.String(), "message", p.Message)
	}
	if s.onProblems != nil {
		s.onProblems(opened, resolved)
	}
}

// culprits returns the objects that may have a virtual host refused: those whose
// rules in it are not as in the accepted one, and in no other accepted one
// either.
func (r *renderer) culprits(h *host, accepted map[string]*host, reason string) []refusal {
	old := accepted[h.vh.Domain]
	var suspects, strangers []refusal
	seen := make(map[types.NamespacedName]bool)
	for _, m := range h.vh.Matches {
		name := m.Route.Name
		if seen[name] {
			continue
		}
		seen[name] = true
		if old != nil && bytes.Equal(r.rules(h, name), r.rules(old, name)) {
			continue
		}
		f := refusal{
			route: m.Route, good: lastAccepted(m.Route, old, accepted),
			problem: routes.Problem{Object: name, UID: m.Route.UID, Reason: RefusedByEnvoy, Field: "spec", Message: reason},
		}
		suspects = append(suspects, f)
		if f.good == nil || !bytes.Equal(r.action(f.good), r.action(f.route)) {
			strangers = append(strangers, f)
		}
	}
	if len(strangers) > 0 {
		return strangers
	}
	return suspects
}

// rules returns what one object contributes to a virtual host.
func (r *renderer) rules(h *host, object types.NamespacedName) []byte {
	only := routes.VirtualHost{Domain: h.vh.Domain}
	for _, m := range h.vh.Matches {
		if m.Route.Name == object {
			only.Matches = append(only.Matches, m)
		}
	}
	return marshal(r.VirtualHost(only))
}

// action returns what an object has done with its requests, whichever these are.
func (r *renderer) action(route *routes.Route) []byte {
	return marshal(r.VirtualHost(routes.VirtualHost{Domain: "*", Matches: []routes.Match{{PathPrefix: "/", Headers: route.Headers(), Route: route}}}))
}

// lastAccepted returns an object as it is in a virtual host that was accepted.
func lastAccepted(route *routes.Route, old *host, accepted map[string]*host) *routes.Route {
	hosts := []*host{old}
	for _, domain := range route.Hosts() {
		hosts = append(hosts, accepted[domain])
	}
	for _, h := range hosts {
		if h == nil {
			continue
		}
		for _, m := range h.vh.Matches {
			if m.Route.Name == route.Name && m.Route.UID == route.UID {
				return m.Route
			}
		}
	}
	return nil
}

// routeOf returns the route that a cluster belongs to; nil when it is gone.
func routeOf(table *routes.Table, cluster string) *routes.Route {
	object, _, ok := routes.ParseClusterName(cluster)
	if table == nil || !ok {
		return nil
	}
	return table.Route(object)
}

// backendOf returns the backend whose cluster has a name; nil when it is gone.
func backendOf(table *routes.Table, cluster string) *routes.Backend {
	route := routeOf(table, cluster)
	if route == nil {
		return nil
	}
	for i := range route.Backends {
		if route.Backends[i].Cluster == cluster {
			return &route.Backends[i]
		}
	}
	return nil
}

// oneLine makes Envoy's words fit for a line of a log and an Event.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}
