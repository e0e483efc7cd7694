package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// reportWait is how long a call waits for a parent that is known to report.
	reportWait = 2 * time.Second
	// reportPoll is how often the watch is looked at meanwhile.
	reportPoll = 20 * time.Millisecond
	// reportPatience is how long after a change a parent that has not reported on it
	// holds a weight up.
	reportPatience = 30 * time.Second
)

// verify returns why the cluster is not as the call asks.
func (r *Router) verify(ctx context.Context, p plan) error {
	if p.problem != nil && (!p.atRest() || p.dropsExperiments) {
		return p.problem
	}
	targets, missing, err := r.named(ctx, p)
	if err != nil || missing != nil && !p.atRest() {
		return errors.Join(err, missing)
	}
	if p.configError != nil {
		carrying, err := r.carrying(ctx, p)
		if targets = slices.Concat(carrying.targets, r.keptFor(ctx, p)); err != nil && len(targets) == 0 {
			return err
		}
	}
	weigh := func(t target) (Decision, error) { return SetWeight(t.route, t.rollout, p.weights) }
	all, err := r.decideAll(ctx, targets, weigh)
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.decision.Changed {
			return fmt.Errorf("%s is not as decided", d.ref)
		}
	}
	if p.atRest() || !p.config.Verification {
		return nil
	}
	deadline := time.Now().Add(reportWait)
	for _, d := range all {
		if err := r.accepted(ctx, p, d.ref, d.route, deadline); err != nil {
			return err
		}
	}
	return nil
}

// accepted returns why the parents of a route have not accepted it. It waits until
// the deadline, for a parent that has reported before.
func (r *Router) accepted(ctx context.Context, p plan, ref routeRef, route *unstructured.Unstructured, deadline time.Time) error {
	for {
		late := r.reports.age(ref, route) > reportPatience
		var refused, behind, unreported []string
		for _, parent := range ParentsOf(route) {
			switch parent.State {
			case Refused:
				refused = append(refused, parent.String())
			case Behind:
				behind = append(behind, parent.String())
			case Unreported:
				unreported = append(unreported, parent.String())
			case Accepted:
			}
		}
		waited := !time.Now().Before(deadline)
		switch silent := slices.Concat(behind, unreported); {
		case len(refused) > 0:
			message := fmt.Sprintf("%s: %s", ref, strings.Join(refused, "; "))
			r.warn(p, reasonRefused, message, message+"; the weight is not verified until it is accepted")
			return errors.New(message)
		case len(silent) == 0:
			return nil
		case late:
			message := fmt.Sprintf("%s: %s", ref, strings.Join(silent, "; "))
			r.warn(p, reasonUnreported, ref.String(), fmt.Sprintf("%s: no report on the route within %s of its change; the weight counts as verified", message, reportPatience))
			return nil
		case len(behind) == 0 || waited:
			return fmt.Errorf("%s: %s", ref, strings.Join(silent, "; "))
		}
		if err := r.awaitReport(ctx, ref, route, deadline); err != nil {
			return err
		}
		fresh, err := r.routes.Get(ctx, string(ref.kind), ref.Namespace, ref.Name)
		if err != nil {
			return requestError("get", ref.String(), ref.kind, r.timeout, err)
		}
		if generationOf(fresh) != generationOf(route) {
			return fmt.Errorf("%s has changed while it was verified", ref)
		}
		route = fresh
	}
}

// awaitReport returns when the watch shows another state of a route, at the deadline
// at the latest.
func (r *Router) awaitReport(ctx context.Context, ref routeRef, route *unstructured.Unstructured, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	ticker := time.NewTicker(reportPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if time.Now().Before(deadline) {
				return ctx.Err()
			}
			return nil
		case <-ticker.C:
		}
		if version, ok := r.routes.ResourceVersion(string(ref.kind), ref.Namespace, ref.Name); ok && version != route.GetResourceVersion() {
			return nil
		}
	}
}

// reports knows since when routes are of their present generation: since our write,
// or since this process has first looked.
type reports struct {
	mu    sync.Mutex
	since map[routeRef]generationSince
	own   map[routeRef]generation // that of this process's last write
}

// generation is one of a route; one that is made anew begins with the first again.
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

// wrote notes a route as a write of this process has left it.
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

// age returns for how long a route has been of its generation, as far as is known.
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
