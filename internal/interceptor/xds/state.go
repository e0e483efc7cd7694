package xds

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// EnvoyState is what one connected Envoy was sent and has acknowledged. It has no
// contents of resources: no key, and no value of a header.
type EnvoyState struct {
	// Pod is the name that the Envoy gives of its pod, empty for none, and Address is
	// where its connection comes from.
	Pod      string `json:"pod,omitempty"`
	Address  string `json:"address"`
	Protocol string `json:"protocol"` // delta or sotw
	// Namespaces are the namespaces whose objects it gets; none for all.
	Namespaces []string  `json:"namespaces,omitempty"`
	Connected  time.Time `json:"connected"`
	// Types are the types of resource that the Envoy has asked for.
	Types []TypeState `json:"types"`
	// Objects is how many HTTPScaledObjects the Envoy is to have. Unacknowledged is how
	// many HTTPScaledObjects it has not acknowledged as they are now, including those
	// that are to be removed. UnacknowledgedObjects lists them, the oldest first and
	// 1000 at most.
	Objects               int           `json:"objects"`
	Unacknowledged        int           `json:"unacknowledged"`
	UnacknowledgedObjects []ObjectState `json:"unacknowledgedObjects,omitempty"`
}

// TypeState is one type of resource. A version stands for all resources of the type
// that the Envoy has; two interceptors with the same table have the same versions.
type TypeState struct {
	Type string `json:"type"`
	// Sent, Acknowledged and Refused are the last version of each; nil for none. A
	// version that the Envoy has from an earlier stream counts as acknowledged, and not
	// as sent.
	Sent         *VersionState `json:"sent,omitempty"`
	Acknowledged *VersionState `json:"acknowledged,omitempty"`
	Refused      *VersionState `json:"refused,omitempty"`
	// Unanswered is how many responses wait for an answer, and UnansweredSince when
	// the first of them was sent.
	Unanswered      int        `json:"unanswered,omitempty"`
	UnansweredSince *time.Time `json:"unansweredSince,omitempty"`
}

// VersionState is a version, and when it was sent or answered.
type VersionState struct {
	Version string    `json:"version"`
	At      time.Time `json:"at"`
}

// ObjectState is an HTTPScaledObject of which an Envoy has not acknowledged the current
// routes, clusters or endpoints, and since when.
type ObjectState struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	State     Acknowledgement `json:"state"`
	Since     time.Time       `json:"since"`
}

// Acknowledgement is how far an object is from being acknowledged.
type Acknowledgement string

const (
	// Waiting is an object that is to be sent: after others, or once the Envoy has
	// asked for the endpoints of its clusters.
	Waiting Acknowledgement = "waiting"
	// Sent is an object that was sent, and that the Envoy has not answered for.
	Sent Acknowledgement = "sent"
	// Refused is an object of which the Envoy has refused something.
	Refused Acknowledgement = "refused"
)

var acknowledgements = []Acknowledgement{Waiting, Sent, Refused}

// maxListed bounds EnvoyState.UnacknowledgedObjects.
const maxListed = 1000

// connected returns the streams of all connected Envoys, sorted by pod and address.
func (s *Server) connected() []*stream {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *stream) int {
		return cmp.Or(strings.Compare(a.pod, b.pod), strings.Compare(a.peer, b.peer))
	})
	return all
}

// state returns what the Envoy was sent and has acknowledged.
func (st *stream) state() EnvoyState {
	state, objects := st.read()
	for name, o := range objects {
		state.UnacknowledgedObjects = append(state.UnacknowledgedObjects, ObjectState{name.Namespace, name.Name, o.is, o.since})
	}
	state.Unacknowledged = len(objects)
	slices.SortFunc(state.UnacknowledgedObjects, func(a, b ObjectState) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	state.UnacknowledgedObjects = slices.Clone(state.UnacknowledgedObjects[:min(len(objects), maxListed)])
	return state
}

// read copies the state under the lock. It leaves UnacknowledgedObjects empty: the caller
// lists them from the second result, without the lock.
func (st *stream) read() (EnvoyState, unacknowledged) {
	st.mu.Lock()
	defer st.mu.Unlock()
	state := EnvoyState{
		Pod: st.pod, Address: st.peer, Protocol: st.protocol(), Connected: st.begins, Types: []TypeState{},
		Namespaces: slices.Sorted(maps.Keys(st.namespaces)),
	}
	for k := range st.channels {
		if ch := &st.channels[k]; ch.asked {
			state.Types = append(state.Types, ch.state(kind(k)))
		}
	}
	if st.table != nil {
		for route := range st.table.Routes() {
			if st.namespaces.HasObject(route.Name) {
				state.Objects++
			}
		}
	}
	return state, st.unacknowledged()
}

func (ch *channel) state(k kind) TypeState {
	state := TypeState{
		Type: kindNames[k], Unanswered: len(ch.flights),
		Sent: ch.sent.state(), Acknowledged: ch.acknowledged.state(), Refused: ch.refused.state(),
	}
	if state.Unanswered > 0 {
		oldest := ch.oldest()
		state.UnansweredSince = &oldest
	}
	return state
}

func (m mark) state() *VersionState {
	if m.at.IsZero() {
		return nil
	}
	return &VersionState{m.version.String(), m.at}
}

// unacknowledged are the objects that an Envoy has not acknowledged as they are.
type unacknowledged map[types.NamespacedName]unacknowledgedObject

type unacknowledgedObject struct {
	is    Acknowledgement
	since time.Time
}

// add adds a state of an object, and since when. Of several times the earliest counts;
// of several states Refused goes before Waiting, and Waiting before Sent.
func (u unacknowledged) add(object types.NamespacedName, is Acknowledgement, since time.Time) {
	o, there := u[object]
	if !there || is == Refused || o.is == Sent {
		o.is = is
	}
	o.since = earlier(o.since, since)
	u[object] = o
}

// addCluster adds a state of the object that a cluster belongs to.
func (u unacknowledged) addCluster(cluster string, is Acknowledgement, since time.Time) {
	if object, _, ok := routes.ParseClusterName(cluster); ok {
		u.add(object, is, since)
	}
}

// unacknowledged returns the objects that the stream has still to send, whose answer it
// waits for, or that the Envoy refuses. It is called with mu held.
func (st *stream) unacknowledged() unacknowledged {
	all := make(unacknowledged)
	if st.table == nil {
		return all
	}
	pushed := make(map[types.NamespacedName]bool)
	if st.routes.push != nil {
		for _, name := range st.routes.push.objects {
			pushed[name] = true
		}
	}
	for name, p := range st.routes.pending {
		switch {
		case pushed[name]:
			all.add(name, Sent, p.since)
		case st.refusesCurrent(name, p):
			all.add(name, Refused, p.since)
		case !st.routes.synced || !sameRouting(st.table.Route(name), st.routes.table.Route(name)):
			all.add(name, Waiting, p.since)
		}
	}
	s := &st.clusters
	for _, k := range []kind{cds, eds} {
		for _, f := range st.channels[k].flights {
			for _, name := range f.names {
				all.addCluster(name, Sent, f.at)
			}
		}
	}
	for name, at := range s.stale {
		if c := s.known[name]; c != nil && !c.gone && st.channels[cds].asked {
			all.addCluster(name, Waiting, at)
		}
	}
	for name, at := range s.staleAssignments {
		if c := s.known[name]; c != nil && !c.gone && s.wanted[name] {
			all.addCluster(name, Waiting, at)
		}
	}
	for what, at := range st.claims {
		if what.kind != rds { // pending has those of routes
			all.add(what.object, Refused, at)
		}
	}
	return all
}

// oldest returns the earliest time since which an object is in a state; zero if no object
// is.
func (u unacknowledged) oldest(is Acknowledgement) time.Time {
	var oldest time.Time
	for _, o := range u {
		if o.is == is {
			oldest = earlier(oldest, o.since)
		}
	}
	return oldest
}
