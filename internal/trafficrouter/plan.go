package trafficrouter

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// Plan is what a call of the controller asks for.
type Plan struct {
	// Rollout is the Rollout as the controller has sent it. For self-healing it has name, UID,
	// and what rolloutspec and decisions read of strategy and status.
	Rollout *v1alpha1.Rollout
	// Weights are nil for a call that is about header and mirror routes: the weights stay as
	// they are.
	Weights *Weights
	// RouteCalls are the calls for header and mirror routes since the last SetWeight, in
	// order, each name once.
	RouteCalls []RouteCall
	// PutBack says that header and mirror routes that passed steps have set, and that are
	// missing, are to be set again, and that those that passed steps have removed are to go.
	PutBack bool
	// Unconfigured is true if the Rollout's configuration cannot be read. All traffic then
	// goes to stable on the objects that have something of the Rollout.
	Unconfigured bool

	// held is true for a SetWeight that leaves all as it is without an error, and for the
	// VerifyWeight that follows it.
	held bool
	// again keeps the call from being answered from memory the next time.
	again bool
	// warn writes an Event; see Warn.
	warn func(reason, topic, message string)
}

// Weights are the shares of a Rollout's traffic. They add up to its maxTrafficWeight, unless
// they are AtRest.
type Weights struct {
	Stable, Canary int32
	Experiments    []v1alpha1.WeightDestination
}

// AtRest tells whether all of the traffic is stable's.
func (w Weights) AtRest() bool { return w.Canary == 0 && len(w.Experiments) == 0 }

// RouteCall is a call for header and mirror routes: RemoveManagedRoutes, or SetHeaderRoute
// or SetMirrorRoute, which without a match remove the route of that name.
type RouteCall struct {
	RemoveAll bool
	Header    *v1alpha1.SetHeaderRoute
	Mirror    *v1alpha1.SetMirrorRoute
}

// Name is the name of the route that the call sets or removes.
func (c RouteCall) Name() string {
	switch {
	case c.Header != nil:
		return c.Header.Name
	case c.Mirror != nil:
		return c.Mirror.Name
	}
	return ""
}

// Removes tells whether the call removes routes.
func (c RouteCall) Removes() bool {
	return c.RemoveAll || c.Header != nil && len(c.Header.Match) == 0 || c.Mirror != nil && len(c.Mirror.Match) == 0
}

// String names what the call is about for people.
func (c RouteCall) String() string {
	switch {
	case c.RemoveAll:
		return "header and mirror routes"
	case c.Header != nil:
		return "header route " + c.Name()
	}
	return "mirror route " + c.Name()
}

// Name is the name of the Rollout.
func (p *Plan) Name() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Rollout.Namespace, Name: p.Rollout.Name}
}

// AtRest tells whether all of the traffic is to go to stable.
func (p *Plan) AtRest() bool { return p.Weights != nil && p.Weights.AtRest() }

// Warn writes an Event on the Rollout, once for each step, reason and topic: the topic is
// what the warning is about, while the message may have details that change. A call that
// has warned is not answered from memory.
func (p *Plan) Warn(reason, topic, message string) {
	p.again = true
	if p.warn == nil {
		return
	}
	p.warn(reason, fmt.Sprintf("step %d: %s", stepOf(p.Rollout), topic), fmt.Sprintf("Rollout %s: %s", p.Name(), message))
}

// AskAgain keeps the call from being answered from memory the next time: it may end otherwise
// although no object changes.
func (p *Plan) AskAgain() { p.again = true }

func stepOf(ro *v1alpha1.Rollout) int32 {
	if ro.Status.CurrentStepIndex == nil {
		return 0 // gob sends 0 as nil
	}
	return *ro.Status.CurrentStepIndex
}

// leavesSteps tells whether a Rollout is aborted or promoted in full, so that its steps no
// longer count.
func leavesSteps(ro *v1alpha1.Rollout) bool { return ro.Status.Abort || ro.Status.PromoteFull }

// goesBack tells whether a Rollout is on its way back to stable, in an abort or a rollback:
// then stable is scaled up only once the weight is set.
func goesBack(ro *v1alpha1.Rollout) bool {
	return ro.Status.Abort || ro.Status.StableRS != "" && ro.Status.CurrentPodHash == ro.Status.StableRS
}

// stepsCount tells whether a Rollout has a canary whose steps count.
func stepsCount(ro *v1alpha1.Rollout) bool {
	return !leavesSteps(ro) && ro.Status.CurrentPodHash != ro.Status.StableRS
}
