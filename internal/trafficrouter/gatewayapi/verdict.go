package gatewayapi

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

const (
	// reportPatience is how long a parent that has never reported holds a weight up.
	reportPatience = 30 * time.Second
	// behindPatience is how long after a change of a route it is said of a parent that it does
	// not follow the route.
	behindPatience = time.Minute
)

// followed is what a verdict on a route depends on.
type followed struct {
	route *unstructured.Unstructured
	// before is what the parents had against the route before the Rollout's first write.
	before []refusal
	// own are the faults of what the Rollout itself needs of the route: with any, before does
	// not count.
	own []string
	// age is how long the route has had its present generation.
	age time.Duration
	// unreported is since when parents are known not to report, whatever the generation;
	// verdictOf keeps it up to date.
	unreported map[parentKey]time.Time
}

// parentKey is one controller's part of a route, for one of its parentRefs.
type parentKey struct{ name, controller string }

func (p Parent) key() parentKey { return parentKey{p.Name, p.Controller} }

// verdict sorts the parents of a route by what they say of its present generation. Those
// that accept it are in no list.
type verdict struct {
	refused []Parent
	// awaited have not reported on it yet: time makes no acceptance of that.
	awaited []Parent
	// silent have never reported, for longer than reportPatience.
	silent []Parent
	// excused accept it but for what they have had against it before.
	excused []Parent
	// own are faults of what the Rollout itself needs of the route, beside a refusal.
	own []string
	// soon is true while a parent that follows the route may report at any moment.
	soon bool
	// overdue is true if one of those has not reported for so long that it is to be said.
	overdue bool
}

// verdictOf judges a route.
func verdictOf(f followed) verdict {
	v := verdict{own: f.own}
	before := f.before
	if len(f.own) > 0 {
		before = nil
	}
	for _, parent := range parentsOf(f.route, before) {
		if _, known := f.unreported[parent.key()]; !known && parent.State == Unreported {
			f.unreported[parent.key()] = time.Now()
		} else if parent.State == Accepted || parent.State == Refused {
			delete(f.unreported, parent.key())
		}
		switch {
		case parent.State == Refused:
			v.refused = append(v.refused, parent)
		case parent.State == Unreported && time.Since(f.unreported[parent.key()]) > reportPatience:
			v.silent = append(v.silent, parent)
		case parent.State != Accepted:
			v.awaited = append(v.awaited, parent)
			v.soon = v.soon || parent.State == Behind && f.age <= reportPatience
			v.overdue = v.overdue || parent.State == Behind && f.age > behindPatience
		case len(parent.Excused) > 0:
			v.excused = append(v.excused, parent)
		}
	}
	return v
}

// holds tells whether a weight is not verified, unless it is on the way back to stable.
func (v verdict) holds() bool { return len(v.refused)+len(v.awaited) > 0 }

// accepted tells whether all parents accept the route, with nothing to say.
func (v verdict) accepted() bool { return !v.holds() && len(v.silent)+len(v.excused) == 0 }

// excusing tells whether a parent counts as one that accepts the route, or is not waited
// for, though it has something against it.
func (v verdict) excusing() bool {
	return slices.ContainsFunc(slices.Concat(v.excused, v.silent), func(p Parent) bool { return len(p.Excused) > 0 })
}

// reports is what this process has seen of each route: since when it has its present
// generation, whether this process has written that, and since when parents do not report.
type reports struct {
	mu     sync.Mutex
	routes map[trafficrouter.Ref]*routeReports
	// gone tells whether a route does not exist any more; nil if none ever goes.
	gone func(trafficrouter.Ref) bool
}

// routeReports is what has been seen of one route. A route that is created again begins
// with the first generation, and has another UID.
type routeReports struct {
	uid        types.UID
	generation int64
	since      time.Time
	// own is the generation of this process's last write.
	own        int64
	unreported map[parentKey]time.Time // as in followed
}

// of returns what has been seen of a route, at its present generation; r.mu is held.
func (r *reports) of(ref trafficrouter.Ref, route *unstructured.Unstructured) *routeReports {
	if r.routes == nil {
		r.routes = map[trafficrouter.Ref]*routeReports{}
	}
	seen := r.routes[ref]
	if seen == nil || seen.uid != route.GetUID() {
		seen = &routeReports{uid: route.GetUID(), generation: -1, own: -1, unreported: map[parentKey]time.Time{}}
		if r.gone != nil {
			maps.DeleteFunc(r.routes, func(other trafficrouter.Ref, _ *routeReports) bool { return r.gone(other) })
		}
		r.routes[ref] = seen
	}
	if now := route.GetGeneration(); seen.generation != now {
		seen.generation, seen.since = now, time.Now()
	}
	return seen
}

// judge judges a route by what has been seen of it. A parent that has been found silent is
// not waited for at later generations either, until it reports.
func (r *reports) judge(ref trafficrouter.Ref, f followed) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.of(ref, f.route)
	f.age, f.unreported = time.Since(seen.since), seen.unreported
	return verdictOf(f)
}

// wrote records that this process has written the generation that a route has.
func (r *reports) wrote(ref trafficrouter.Ref, route *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(ref, route).own = route.GetGeneration()
}

// wroteLast tells whether this process has written the spec that a route has.
func (r *reports) wroteLast(ref trafficrouter.Ref, route *unstructured.Unstructured) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(ref, route).own == route.GetGeneration()
}
