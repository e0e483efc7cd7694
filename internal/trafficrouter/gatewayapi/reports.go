package gatewayapi

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// reports knows for each route since when it has its present generation, whether this
// process has written that generation, and which of the route's parents do not report.
type reports struct {
	mu    sync.Mutex
	since map[routeRef]generationSince
	own   map[routeRef]generation // the generation of this process's last write
	// silent has the parents that have not reported for reportPatience, with the last
	// generation that each has reported on: 0 for one that has never reported all
	// conditions. The parents of a route that is created again are waited for again.
	silent map[routeParent]int64
}

// routeParent is one controller's part of a route, for one of its parentRefs.
type routeParent struct {
	route            routeRef
	uid              types.UID
	name, controller string
}

// generation is a generation of a route. A route that is created again begins with the
// first one, and has another UID.
type generation struct {
	uid    types.UID
	number int64
}

func generationOf(route *unstructured.Unstructured) generation {
	return generation{route.GetUID(), route.GetGeneration()}
}

type generationSince struct {
	generation
	at time.Time
}

// judgement is what the parents of a route say of its present generation, without those
// that have accepted it.
type judgement struct {
	// refused have refused it.
	refused []Parent
	// awaited have not reported, and are to be waited for.
	awaited []Parent
	// silent have not reported for so long that they are not waited for.
	silent []Parent
	// reporting is true if one of awaited has reported before, so it may report soon.
	reporting bool
	// held is true if one of awaited has not reported for reportPatience, and is waited
	// for all the same because its last report has refused the route.
	held bool
}

func (j judgement) message(ref routeRef, parents []Parent) string {
	texts := make([]string, len(parents))
	for i, parent := range parents {
		texts[i] = parent.String()
	}
	return fmt.Sprintf("%s: %s", ref, strings.Join(texts, "; "))
}

// judge sorts the parents of a route by what they say of its present generation. One that
// has not reported for reportPatience is remembered as silent: it is not waited for at the
// next generation either, until it reports. One whose last report is a refusal is never
// silent: a refusal does not become an acceptance by waiting.
func (r *reports) judge(ref routeRef, route *unstructured.Unstructured) judgement {
	late := r.age(ref, route) > reportPatience
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent == nil {
		r.silent = map[routeParent]int64{}
	}
	var j judgement
	for _, parent := range ParentsOf(route) {
		key := routeParent{ref, route.GetUID(), parent.Name, parent.Controller}
		reported := parent.Generation
		if parent.State == Unreported {
			reported = 0
		}
		if last, silent := r.silent[key]; silent && last != reported {
			delete(r.silent, key)
		}
		_, silent := r.silent[key]
		switch {
		case parent.State == Accepted:
			delete(r.silent, key)
		case parent.State == Refused:
			delete(r.silent, key)
			j.refused = append(j.refused, parent)
		case parent.State == RefusedBefore:
			j.awaited = append(j.awaited, parent)
			j.reporting, j.held = j.reporting || !late, j.held || late
		case silent || late:
			r.silent[key] = reported
			j.silent = append(j.silent, parent)
		default:
			j.awaited = append(j.awaited, parent)
			j.reporting = j.reporting || parent.State == Behind
		}
	}
	return j
}

// wrote records the generation of a route after a write of this process.
func (r *reports) wrote(ref routeRef, route *unstructured.Unstructured) {
	r.age(ref, route)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own == nil {
		r.own = map[routeRef]generation{}
	}
	r.own[ref] = generationOf(route)
}

// wroteLast tells whether this process has written the spec that a route has.
func (r *reports) wroteLast(ref routeRef, route *unstructured.Unstructured) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, ok := r.own[ref]
	return ok && own == generationOf(route)
}

// age returns how long ago the present generation of a route was first seen.
func (r *reports) age(ref routeRef, route *unstructured.Unstructured) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since == nil {
		r.since = map[routeRef]generationSince{}
	}
	last, ok := r.since[ref]
	if now := generationOf(route); !ok || last.generation != now {
		last = generationSince{now, time.Now()}
		r.since[ref] = last
	}
	return time.Since(last.at)
}
