package trafficrouter

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// The controller makes the same calls at each reconcile. A call that has neither warned nor
// written, and that is made again with the same key while the watch still has the objects in
// the states in which the call has read them, has the same outcome. It is answered without
// decoding an object or deciding.

// unchangedCall is such a call.
type unchangedCall struct {
	key      key
	readings []reading
	// heals is true if self-healing had a decision for the Rollout after the call.
	heals bool
}

// key is all that the outcome of a call depends on, besides what it reads.
type key struct {
	call           string
	fingerprint    fingerprint
	configuration  string
	stable, canary string
	pingPong       bool
	max            int32
	managedRoutes  string
	arguments      string
}

// reading is what a query has given: the objects' states, or that no watch has them.
type reading struct {
	query  Query
	states []kube.State
	ok     bool
}

// keyOf returns the key of a call.
func (r *Router[T, S]) keyOf(c *call[S]) key {
	ro := c.Rollout
	k := key{
		call: c.name, fingerprint: fingerprintOf(ro),
		pingPong: rolloutspec.UsesPingPong(ro), max: rolloutspec.MaxWeight(ro),
	}
	k.stable, k.canary = rolloutspec.Services(ro)
	if canary := ro.Spec.Strategy.Canary; canary != nil && canary.TrafficRouting != nil {
		k.configuration = string(canary.TrafficRouting.Plugins[r.PluginName])
		names := make([]string, len(canary.TrafficRouting.ManagedRoutes))
		for i, route := range canary.TrafficRouting.ManagedRoutes {
			names[i] = route.Name
		}
		k.managedRoutes = strings.Join(names, "\n")
	}
	text, err := json.Marshal([]any{c.weight, c.additional, c.RouteCalls, c.PutBack, c.held})
	if err != nil {
		panic(fmt.Sprintf("arguments of %s: %v", c.name, err)) // they have come as data
	}
	k.arguments = string(text)
	return k
}

// remembers tells whether a call is known to have nothing to do.
func (r *Router[T, S]) remembers(kept *memory, k key) bool {
	last, ok := kept.unchanged[k.call]
	if !ok || last.key != k || last.heals != r.heals(kept) {
		return false
	}
	for _, read := range last.readings {
		states, ok := r.store.States(read.query)
		if ok != read.ok || !slices.Equal(states, read.states) {
			return false
		}
	}
	return true
}

// remember keeps a call that is to be answered from memory. After any other call it drops
// all of the Rollout: that call may have changed something that they depend on.
func (r *Router[T, S]) remember(kept *memory, k key, c *call[S], err error) {
	if err != nil || c.again {
		kept.unchanged = nil
		return
	}
	if kept.unchanged == nil {
		kept.unchanged = map[string]unchangedCall{}
	}
	kept.unchanged[k.call] = unchangedCall{k, c.readings, r.heals(kept)}
}

func (r *Router[T, S]) heals(kept *memory) bool {
	_, _, ok := r.healer.Kept(kept.name)
	return ok
}

func (r *Router[T, S]) statesOf(objects []T) []kube.State {
	states := make([]kube.State, len(objects))
	for i, object := range objects {
		states[i] = r.store.StateOf(object)
	}
	return states
}
