package ingress

import (
	"fmt"
	"maps"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/acknowledgement"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// memory is what is remembered of a namespace. An agent that starts anew may wait a little
// longer for want of it, and does nothing else differently.
type memory struct {
	// gone is since when there has been no kedify-proxy; zero if there is one.
	gone time.Time
	// answers are the interceptors', of the time asked.
	answers *acknowledgement.Answers
	asked   time.Time
	// wirings are by Ingress, to notice those that somebody writes back.
	wirings map[types.UID]*wirings
	// waiting are the objects, by name, that kedify-proxies have not acknowledged yet.
	waiting map[string]sighting
	// seen are the Ingresses of the agent's own.
	seen map[types.UID]sighting
}

// sighting is since when an Ingress or an object has been in a state.
type sighting struct {
	state string
	since time.Time
}

// memoryOf returns what is remembered of a namespace, which is worked on once at a time.
func (r *reconciler) memoryOf(namespace string) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.namespaces[namespace]
	if m == nil {
		m = &memory{wirings: make(map[types.UID]*wirings), waiting: make(map[string]sighting), seen: make(map[types.UID]sighting)}
		r.namespaces[namespace] = m
	}
	return m
}

// forget forgets a namespace.
func (r *reconciler) forget(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.namespaces, namespace)
}

// forgetOthers forgets Ingresses that are gone.
func (m *memory) forgetOthers(ingresses []networkingv1.Ingress) {
	gone := func(uid types.UID) bool {
		return !slices.ContainsFunc(ingresses, func(i networkingv1.Ingress) bool { return i.UID == uid })
	}
	maps.DeleteFunc(m.wirings, func(uid types.UID, _ *wirings) bool { return gone(uid) })
	maps.DeleteFunc(m.seen, func(uid types.UID, _ sighting) bool { return gone(uid) })
}

// withoutProxies returns how long a namespace without a kedify-proxy still counts as one that
// has some; 0 if it has some.
func (m *memory) withoutProxies(now time.Time, none bool) time.Duration {
	switch {
	case !none:
		m.gone = time.Time{}
		return 0
	case m.gone.IsZero():
		m.gone = now
	}
	return withoutProxy - now.Sub(m.gone)
}

// askAgain returns when to ask interceptors again about an object that pods have not
// acknowledged: the later, the longer nothing of what it waits for has changed.
func (m *memory) askAgain(o *httpv1alpha1.HTTPScaledObject, pods []string, now time.Time) time.Duration {
	state := fmt.Sprint(o.UID, o.Generation, o.Annotations[weightedbackends.Annotation], pods)
	if m.waiting[o.Name].state != state {
		m.waiting[o.Name] = sighting{state, now}
	}
	return min(max(askAgain, now.Sub(m.waiting[o.Name].since)/10), mostAskAgain)
}

// seenFor returns for how long an Ingress has been in a state.
func (m *memory) seenFor(i *networkingv1.Ingress, state string, now time.Time) time.Duration {
	if m.seen[i.UID].state != state {
		m.seen[i.UID] = sighting{state, now}
	}
	return now.Sub(m.seen[i.UID].since)
}
