package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

const (
	// reportWait is how long a call waits for parents that follow its routes.
	reportWait = 2 * time.Second
	// reportPoll is how often the watch is looked at meanwhile.
	reportPoll = 20 * time.Millisecond
	// longestDescription bounds what parents say in an Event, which also has to say what to do.
	longestDescription = 500
)

// verification is what VerifyWeight asks of the parents of a Rollout's routes.
type verification struct{ *trafficrouter.Plan }

// wayBack tells whether the traffic is on its way back to stable, or all there: what parents
// say then is told, and holds nothing up.
func (v verification) wayBack() bool {
	status := v.Rollout.Status
	return v.Weights.Canary == 0 || status.Abort || status.CurrentPodHash == status.StableRS
}

// concerns tells whether it matters that the parents of a route follow it: at rest only if
// it has header or mirror routes, or had a canary that is aborted.
func (v verification) concerns(t target, ro Rollout) bool {
	if !t.Settings.verification {
		return false
	}
	if !v.AtRest() || v.Rollout.Status.Abort {
		return true
	}
	s, _ := stateOf(t.Object)
	e, _ := s.entry(keyOf(ro.owner()))
	return len(e.Routes) > 0
}

// Verify returns why the parents of the routes do not let the weight count as verified. It
// waits a moment for those that are about to report.
func (b *backend) Verify(ctx context.Context, p *trafficrouter.Plan, targets []target) error {
	v := verification{p}
	deadline := time.Now().Add(reportWait)
	var failures []error
	for _, t := range targets {
		ro := b.rolloutOf(p.Rollout, t.Settings)
		if !v.concerns(t, ro) {
			continue
		}
		said, err := b.judge(ctx, v, t, ro, deadline)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if !said.accepted() {
			p.AskAgain()
		}
		failures = append(failures, v.say(t.Ref, said))
	}
	return errors.Join(failures...)
}

// judge judges a route. Unless the traffic is on its way back it waits, until the deadline,
// for parents that may report at any moment.
func (b *backend) judge(ctx context.Context, v verification, t target, ro Rollout, deadline time.Time) (verdict, error) {
	before, _ := refusedBefore(t.Object, ro.owner())
	own := sync.OnceValue(func() []string { return b.ownFaults(ctx, t.Object, ro, before) })
	for route := t.Object; ; {
		said := b.routes.reports.judge(t.Ref, followed{route: route, before: before})
		if said.excusing() {
			said = b.routes.reports.judge(t.Ref, followed{route: route, before: before, own: own()})
		}
		if v.wayBack() || len(said.refused) > 0 || !said.soon || !time.Now().Before(deadline) {
			return said, nil
		}
		_ = wait.PollUntilContextTimeout(ctx, reportPoll, time.Until(deadline), false, func(context.Context) (bool, error) {
			state, ok := b.routes.State(t.Kind, t.Namespace, t.Name)
			return ok && state != kube.StateOf(route), nil
		})
		if ctx.Err() != nil {
			return said, ctx.Err()
		}
		fresh, err := b.routes.Get(ctx, t.Kind, t.Namespace, t.Name)
		if err != nil {
			return said, fmt.Errorf("%s: %w", t.Ref, err)
		}
		if fresh.GetUID() != route.GetUID() || fresh.GetGeneration() != route.GetGeneration() {
			return said, fmt.Errorf("%s has changed while it was verified", t.Ref)
		}
		route = fresh
	}
}

// say writes Events about a verdict on a route. It returns the verdict as an error if it
// holds the weight up.
func (v verification) say(ref trafficrouter.Ref, said verdict) error {
	warn := func(reason string, parents []Parent, consequence string, details ...string) {
		message := fmt.Sprintf("%s: %s", ref, describe(parents))
		topic := message + "; " + consequence
		v.Warn(reason, topic, strings.Join(append(append([]string{message}, details...), consequence), "; "))
	}
	if len(said.refused) > 0 {
		warn(reasonRefused, said.refused, v.consequence(), said.own...)
	}
	if said.overdue {
		warn(reasonUnreported, said.awaited, v.consequence(), "see whether the controller of the Gateway runs and follows the route; "+
			"if nobody writes this report any more, take it out of the route's status.parents; verification: off in the Rollout's configuration asks for no report")
	}
	if len(said.silent) > 0 {
		warn(reasonUnreported, said.silent, "the weight counts as verified, and this parent is not waited for until it reports",
			fmt.Sprintf("no report on the route within %s of its change", reportPatience))
	}
	if len(said.excused) > 0 {
		warn(reasonRefused, said.excused, "the weight counts as verified", "this is not about the canary's own Services")
	}
	if v.wayBack() || !said.holds() {
		return nil
	}
	return fmt.Errorf("%s: %s", ref, describe(append(said.refused, said.awaited...)))
}

// consequence says what it means for the call's weight that a parent does not accept a
// route.
func (v verification) consequence() string {
	switch {
	case v.AtRest() && !v.Rollout.Status.Abort:
		return "requests may not take the canary's header and mirror routes"
	case v.wayBack():
		return "the way back to stable goes on, but requests may take the last split that was accepted"
	case v.Weights.Canary == rolloutspec.MaxWeight(v.Rollout):
		return "the weight is not verified until it is accepted, and at the maximum weight Argo Rollouts runs no analysis meanwhile: abort the Rollout to go back"
	}
	return "the weight is not verified until it is accepted"
}

// describe names parents, and what each says.
func describe(parents []Parent) string {
	texts := make([]string, len(parents))
	for i, parent := range parents {
		texts[i] = parent.String()
	}
	text := strings.Join(texts, "; ")
	if len(text) > longestDescription {
		text = strings.ToValidUTF8(text[:longestDescription], "") + "…"
	}
	return text
}
