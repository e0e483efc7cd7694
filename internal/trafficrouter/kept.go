package trafficrouter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// forgetEvery is how often the router looks for Rollouts that are gone.
const forgetEvery = 15 * time.Second

// memories has what the router keeps of each Rollout between calls, besides its lock and
// what self-healing has.
type memories struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*memory
}

// memory is what the router keeps of one Rollout. The lock of the Rollout guards it,
// except routeCalls.
type memory struct {
	name types.NamespacedName
	uid  types.UID
	// unchanged are calls that are answered from memory, by name.
	unchanged map[string]unchangedCall
	// last is what the last SetWeight had, for VerifyWeight; nil before the first.
	last *asked
	// gone is true when the watch has not shown the Rollout at the last look.
	gone bool

	mu sync.Mutex
	// routeCalls are the calls since the last SetWeight that has succeeded.
	routeCalls []RouteCall
	// removedAt is the resourceVersion that the Rollout had in the last RemoveManagedRoutes.
	removedAt string
}

// asked are the calls for header and mirror routes of a SetWeight, whether it has put routes
// back, and whether it has left all as it was.
type asked struct {
	calls         []RouteCall
	putBack, held bool
}

// of returns what is kept of a Rollout: nothing of an earlier one with the same name.
func (k *memories) of(ro *v1alpha1.Rollout) *memory {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := types.NamespacedName{Namespace: ro.Namespace, Name: ro.Name}
	kept := k.all[name]
	if kept == nil || kept.uid != ro.UID {
		kept = &memory{name: name, uid: ro.UID}
		if k.all == nil {
			k.all = map[types.NamespacedName]*memory{}
		}
		k.all[name] = kept
	}
	kept.gone = false
	return kept
}

// add adds a call that removes header and mirror routes.
func (k *memory) add(ro *v1alpha1.Rollout, call RouteCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.routeCalls = withCall(k.routeCalls, call)
	if call.RemoveAll {
		k.removedAt = ro.ResourceVersion
	}
}

// withCall returns calls with one more, which replaces those that it makes void.
func withCall(calls []RouteCall, call RouteCall) []RouteCall {
	if call.RemoveAll {
		return []RouteCall{call}
	}
	return append(slices.DeleteFunc(slices.Clone(calls), func(other RouteCall) bool {
		return !other.RemoveAll && other.Name() == call.Name()
	}), call)
}

// addRouteCalls adds to the plan of a call what earlier calls have asked for.
func (k *memory) addRouteCalls(p *Plan, call string, weight int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case call == verifyWeight && k.last != nil:
		p.RouteCalls, p.PutBack, p.held = k.last.calls, k.last.putBack, k.last.held
	case p.Weights != nil:
		p.RouteCalls = k.routeCalls
		// Without an available pod the controller calls RemoveManagedRoutes, and SetWeight(0)
		// twice, in one reconcile: the Rollout is the same in all of these calls.
		sameReconcile := weight == 0 && k.removedAt != "" && k.removedAt == p.Rollout.ResourceVersion
		p.PutBack = stepsCount(p.Rollout) && !sameReconcile &&
			!slices.ContainsFunc(p.RouteCalls, func(c RouteCall) bool { return c.RemoveAll })
	case len(p.RouteCalls) > 0:
		p.RouteCalls = withCall(k.routeCalls, p.RouteCalls[0])
	default:
		p.RouteCalls = k.routeCalls
	}
}

// record records what a call has asked for, and whether that was done.
func (k *memory) record(p *Plan, call string, done bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if call == setWeight {
		k.last = &asked{p.RouteCalls, p.PutBack, p.held}
	}
	switch {
	case !done || call == verifyWeight:
	case call == setWeight:
		k.routeCalls = nil
	default:
		k.routeCalls = p.RouteCalls
	}
}

// forgetGone drops, until ctx ends, what is kept of Rollouts that do not exist any more.
func (r *Router[T, S]) forgetGone(ctx context.Context) {
	ticker := time.NewTicker(forgetEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.forgetOnce()
		}
	}
}

// forgetOnce drops what is kept of Rollouts that the watch has not shown at two looks: it
// may not show one yet that was just created.
func (r *Router[T, S]) forgetOnce() {
	r.memories.mu.Lock()
	defer r.memories.mu.Unlock()
	gone := map[types.NamespacedName]bool{}
	for name, kept := range r.memories.all {
		exists, known := r.Exists(name)
		switch {
		case !known || exists:
			kept.gone = false
		case kept.gone:
			delete(r.memories.all, name)
			gone[name] = true
		default:
			kept.gone = true
		}
	}
	isGone := func(name types.NamespacedName) bool { return gone[name] }
	r.healer.Prune(isGone)
	r.events.Prune(isGone)
}
