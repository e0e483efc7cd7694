package gatewayapi

import (
	"slices"
	"sync"

	k8stypes "k8s.io/apimachinery/pkg/types"
)

// unremoved has the Rollouts whose header and mirror routes could not be removed, with the
// names of those that were set since and are to stay.
type unremoved struct {
	mu    sync.Mutex
	since map[k8stypes.NamespacedName][]string
}

// note notes that a removal has failed.
func (u *unremoved) note(rollout k8stypes.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since == nil {
		u.since = map[k8stypes.NamespacedName][]string{}
	}
	u.since[rollout] = nil
}

// forget notes that a removal has succeeded, or begins anew.
func (u *unremoved) forget(rollout k8stypes.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, rollout)
}

// has tells whether there is a removal to be made up for.
func (u *unremoved) has(rollout k8stypes.NamespacedName) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.since[rollout]
	return ok
}

// set notes that a header or mirror route is set after a removal that has failed.
func (u *unremoved) set(rollout k8stypes.NamespacedName, name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if names, ok := u.since[rollout]; ok && !slices.Contains(names, name) {
		u.since[rollout] = append(names, name)
	}
}

// setSince tells whether a header or mirror route was.
func (u *unremoved) setSince(rollout k8stypes.NamespacedName, name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Contains(u.since[rollout], name)
}
