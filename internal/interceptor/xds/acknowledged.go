package xds

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/acknowledged"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// ListAcknowledged returns a handler that serves which kedify-proxies have acknowledged the
// objects of a namespace, as an acknowledged.Answer. lost returns why the API server is not
// seen; it is empty if it is. A client that reads slowly delays no Envoy: what one pod lacks
// is copied before it is written, and memory is needed for one pod at a time.
//
// The objects are read first. An Envoy counts for an object only if its stream had taken the
// object's form into account, and nothing has changed in the object since.
func (s *Server) ListAcknowledged(lost func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		namespace := r.PathValue("namespace")
		answer := acknowledged.Answer{APIServer: lost(), Proxies: []acknowledged.Proxy{}}
		now := s.objectsOf(namespace)
		if now.table == nil {
			answer.APIServer = cmp.Or(answer.APIServer, "the interceptor has not read all objects from it yet")
		}
		answer.Objects = now.describe()
		w.Header().Set("Content-Type", "application/json")
		// The proxies, which are the end of the answer, follow one by one.
		head := strings.TrimSuffix(string(jsonOf(answer)), "]}")
		if _, err := w.Write([]byte(head)); err != nil {
			return
		}
		encoder, separator := json.NewEncoder(w), ""
		for _, streams := range s.proxiesOf(namespace) {
			proxy := s.proxy(streams, &now)
			if _, err := w.Write([]byte(separator)); err != nil {
				return
			}
			if encoder.Encode(proxy) != nil {
				return
			}
			separator = ","
		}
		_, _ = w.Write([]byte("]}\n")) // a client that has gone needs no answer
	}
}

// objectsNow are the objects of a namespace, at a position in the journal.
type objectsNow struct {
	namespace string
	names     []string
	table     *routes.Table // nil before the first Update
	invalid   invalidObjects
	position  uint64
}

func (s *Server) objectsOf(namespace string) objectsNow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return objectsNow{
		namespace: namespace, names: slices.Clone(s.objects[namespace]),
		table: s.latest, invalid: s.now.invalid, position: s.journal.end(),
	}
}

func (o *objectsNow) named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: o.namespace, Name: name}
}

func (o *objectsNow) describe() []acknowledged.Object {
	all := make([]acknowledged.Object, len(o.names))
	for i, short := range o.names {
		name, is := o.named(short), &all[i]
		is.Name = short
		if route := o.table.Route(name); route != nil {
			is.UID, is.Generation, is.Split = string(route.UID), route.Generation, route.Annotation
		}
		problems := o.table.ProblemsOf(name)
		if object, invalid := o.invalid[name]; invalid {
			problems = append(slices.Clone(problems), object.problem)
		}
		for _, p := range problems {
			if is.UID = cmp.Or(is.UID, string(p.UID)); !p.Reason.Harmless() {
				is.Problem = string(p.Reason) + ": " + p.Message
				break
			}
		}
	}
	return all
}

// proxiesOf returns the streams of each pod that gets the objects of a namespace, by pod.
func (s *Server) proxiesOf(namespace string) [][]*stream {
	var all [][]*stream
	for _, st := range s.connected() {
		last := len(all) - 1
		switch {
		case podWithin(st.pod, st.namespaces) == "" || !st.namespaces.Has(namespace):
		case last >= 0 && all[last][0].pod == st.pod:
			all[last] = append(all[last], st)
		default:
			all = append(all, []*stream{st})
		}
	}
	return all
}

// proxy returns what a pod with these streams has not acknowledged.
func (s *Server) proxy(streams []*stream, now *objectsNow) acknowledged.Proxy {
	proxy := acknowledged.Proxy{Pod: streams[0].pod}
	all := make(map[string]bool)
	for _, st := range streams {
		position, why := st.behind(now, all)
		if why == "" {
			why = s.changed(min(position, now.position), now.namespace, all)
		}
		proxy.Problem = cmp.Or(proxy.Problem, why)
	}
	if proxy.Problem == "" {
		proxy.Behind = slices.Sorted(maps.Keys(all))
	}
	return proxy
}

// changed adds the objects of a namespace that have changed since a position in the journal. It
// returns why all may have; empty if not.
func (s *Server) changed(since uint64, namespace string, all map[string]bool) string {
	s.mu.Lock()
	changes, complete := s.journal.since(since)
	s.mu.Unlock()
	if !complete {
		return "it has yet to be sent more changes than the interceptor keeps"
	}
	for i := range changes {
		c := &changes[i]
		object := c.object
		switch c.kind {
		case aCluster:
			object, _, _ = routes.ParseClusterName(c.cluster)
		case allAssignments:
			return "it has yet to be sent the addresses of the interceptors' fallback"
		}
		if object.Namespace == namespace {
			all[object.Name] = true
		}
	}
	return ""
}

// behind adds the objects that the Envoy has not acknowledged in the form that they have in
// the stream's table. It returns the position of that table in the journal, and why the
// Envoy has acknowledged nothing; empty if it has.
func (st *stream) behind(now *objectsNow, all map[string]bool) (position uint64, why string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	ch := &st.channels[rds]
	if st.table == nil || !ch.wanted[envoy.RouteConfigurationName] || ch.acknowledged.at.IsZero() {
		return 0, "it has not acknowledged any routes yet"
	}
	for name := range st.unacknowledged() {
		if name.Namespace == now.namespace {
			all[name.Name] = true
		}
	}
	held := st.heldHosts()
	for _, name := range now.names {
		route := st.table.Route(now.named(name))
		if route == nil || !st.hasClustersOf(route) || held.of(route) {
			all[name] = true
		}
	}
	return st.position, ""
}

// hasClustersOf tells whether the Envoy was sent all clusters of a route, with their
// endpoints. Whether it has answered, unacknowledged tells.
func (st *stream) hasClustersOf(route *routes.Route) bool {
	for i := range route.Backends {
		if c := st.clusters.known[route.Backends[i].Cluster]; !c.warm() || c.sent == 0 || c.doubted {
			return false
		}
	}
	return true
}

// heldHosts are hosts that an Envoy serves for a form of an object that is not the current
// one. That form may take requests there that are another object's now.
type heldHosts map[string]bool

// serves tells whether some requests of a virtual host, nil for none, go to an object.
func (h *host) serves(object types.NamespacedName) bool {
	return h != nil && slices.ContainsFunc(h.vh.Matches, func(m routes.Match) bool { return m.Route.Name == object })
}

func (st *stream) heldHosts() heldHosts {
	held := make(heldHosts)
	for name := range st.routes.pending {
		if has := st.routes.table.Route(name); has != nil && !has.SameRequests(st.table.Route(name)) {
			for _, host := range has.Hosts() {
				if st.routes.hosts[host].serves(name) {
					held[host] = true
				}
			}
		}
	}
	return held
}

// of tells whether a route has one of these hosts, or a wildcard above one.
func (h heldHosts) of(route *routes.Route) bool {
	if len(h) == 0 {
		return false
	}
	for _, host := range route.Hosts() {
		if h[host] {
			return true
		}
		if below, wild := strings.CutPrefix(host, "*"); wild {
			for other := range h {
				if strings.HasSuffix(other, below) {
					return true
				}
			}
		}
	}
	return false
}

// objectNames are the names of the objects that are served or have a Problem, by namespace.
// The names of a namespace are sorted.
type objectNames map[string][]string

// update follows a table. Unless it is the first one, it looks only at what changed.
func (o objectNames) update(table *routes.Table, changes routes.Changes, first bool) {
	set := func(name types.NamespacedName) {
		o.set(name, table.Route(name) != nil || len(table.ProblemsOf(name)) > 0)
	}
	problems := slices.Concat(changes.Opened, changes.Resolved)
	if first {
		problems = table.Problems()
		for route := range table.Routes() {
			set(route.Name)
		}
	}
	for i := range changes.Routes {
		set(changes.Routes[i].Name)
	}
	for i := range problems {
		set(problems[i].Object)
	}
}

func (o objectNames) set(object types.NamespacedName, there bool) {
	names := o[object.Namespace]
	at, is := slices.BinarySearch(names, object.Name)
	switch {
	case there == is:
		return
	case there:
		names = slices.Insert(names, at, object.Name)
	default:
		names = slices.Delete(names, at, at+1)
	}
	if o[object.Namespace] = names; len(names) == 0 {
		delete(o, object.Namespace)
	}
}
