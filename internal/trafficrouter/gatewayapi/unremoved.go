package gatewayapi

import (
	"slices"
	"sync"

	k8stypes "k8s.io/apimachinery/pkg/types"
)

// unremoved has the header and mirror routes whose removal was asked for and is not done
// yet.
type unremoved struct {
	mu  sync.Mutex
	due map[k8stypes.NamespacedName]removal
}

// removal is what is to be removed of one Rollout: the routes in names, or all routes
// except those that were set since.
type removal struct {
	all          bool
	names, since []string
}

func (r removal) covers(name string) bool {
	return r.all && !slices.Contains(r.since, name) || slices.Contains(r.names, name)
}

// noteAll notes that all routes of a Rollout are to be removed.
func (u *unremoved) noteAll(rollout k8stypes.NamespacedName) { u.put(rollout, removal{all: true}) }

// note notes that one route of a Rollout is to be removed.
func (u *unremoved) note(rollout k8stypes.NamespacedName, name string) {
	r, _ := u.of(rollout)
	u.put(rollout, removal{r.all, append(leaveOut(r.names, name), name), leaveOut(r.since, name)})
}

// set notes that a route is set, and so no longer to be removed.
func (u *unremoved) set(rollout k8stypes.NamespacedName, name string) {
	if r, ok := u.of(rollout); ok {
		u.put(rollout, removal{r.all, leaveOut(r.names, name), append(leaveOut(r.since, name), name)})
	}
}

// of returns what is to be removed of a Rollout, and whether there is anything.
func (u *unremoved) of(rollout k8stypes.NamespacedName) (removal, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r, ok := u.due[rollout]
	return r, ok
}

func (u *unremoved) put(rollout k8stypes.NamespacedName, r removal) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.due == nil {
		u.due = map[k8stypes.NamespacedName]removal{}
	}
	u.due[rollout] = r
}

// forget records that all due removals of a Rollout are done.
func (u *unremoved) forget(rollout k8stypes.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.due, rollout)
}

func leaveOut(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
}
