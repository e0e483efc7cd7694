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
	if p.configError == nil && !p.config.Verification {
		return nil
	}
	targets, missing, err := r.named(ctx, p)
	if err != nil || missing != nil && !p.atRest() {
		return errors.Join(err, missing)
	}
	if p.configError != nil {
		if targets, _, err = r.carrying(ctx, p); err != nil {
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
	if p.atRest() {
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
		generation := route.GetGeneration()
		late := r.reports.age(ref, generation) > reportPatience
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
		if fresh.GetGeneration() != generation {
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
	own   map[routeRef]int64 // the generation of this process's last write
}

type generationSince struct {
	generation int64
	at         time.Time
}

// wrote notes the generation that a route has by a write of this process.
func (r *reports) wrote(ref routeRef, generation int64) {
	r.age(ref, generation)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own == nil {
		r.own = map[routeRef]int64{}
	}
	r.own[ref] = generation
}

// wroteLast tells whether this process has written the spec that a route has at a
// generation.
func (r *reports) wroteLast(ref routeRef, generation int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, ok := r.own[ref]
	return ok && own == generation
}

// age returns for how long a route has been of a generation, as far as is known.
func (r *reports) age(ref routeRef, generation int64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since == nil {
		r.since = map[routeRef]generationSince{}
	}
	last, ok := r.since[ref]
	if !ok || last.generation != generation {
		last = generationSince{generation, time.Now()}
		r.since[ref] = last
	}
	return time.Since(last.at)
}
