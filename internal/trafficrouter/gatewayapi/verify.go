package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
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
		said := r.reports.judge(ref, route)
		switch {
		case len(said.refused) > 0:
			message := said.message(ref, said.refused)
			r.warn(p, reasonRefused, message, message+"; the weight is not verified until it is accepted")
			return errors.New(message)
		case said.reporting && time.Now().Before(deadline):
		case len(said.awaited) > 0:
			message := said.message(ref, said.awaited)
			if said.held {
				r.warn(p, reasonUnreported, message, message+"; the weight is not verified until it is accepted: see why the controller of the Gateway does not report, or take its stale entry out of the status.parents of the route")
			}
			return errors.New(message)
		case len(said.silent) > 0:
			r.warn(p, reasonUnreported, ref.String(), fmt.Sprintf("%s: no report on the route within %s of its change; the weight counts as verified, and this parent is not waited for until it reports", said.message(ref, said.silent), reportPatience))
			return nil
		default:
			return nil
		}
		p.notes.doNotRemember() // notes have the route as it was before the wait
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
		if state, ok := r.routes.State(string(ref.kind), ref.Namespace, ref.Name); ok && state != kube.StateOf(route) {
			return nil
		}
	}
}
