package rolloutsstep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// Snapshot is the input of a decision, for Rollouts of this cluster and of others alike.
type Snapshot struct {
	Barrier Barrier
	// Since is when this canary began: when its oldest pod was created, or when it was
	// retried with the pods that it had. A failure in the same second counts as a later one:
	// the times of the API server are whole seconds. Before the first setWeight there may be
	// no pods: failures before the canary came to the barrier then count as older.
	Since time.Time
	// Others are the Rollouts that are waited for.
	Others []Other
	// TooFew says that there have to be more others; empty if they are enough.
	TooFew string
}

// Other is a Rollout that is waited for.
type Other struct {
	// Name is for people, such as "demo/checkout". It is unique.
	Name string
	// Rollout is nil if it does not exist.
	Rollout *Rollout
}

// readiness is whether another Rollout keeps this one from going on.
type readiness int

const (
	// ready: this Rollout may go on.
	ready readiness = iota
	// notReady: the other Rollout is waited for.
	notReady
	// missing: the other Rollout does not exist (any more), and is waited for.
	missing
	// failedBefore: the other Rollout failed before this canary began, and is waited for.
	failedBefore
	// failedSince: the other Rollout has failed since this canary began. This one fails
	// too.
	failedSince
	// otherVersion: the other Rollout, of a region, has another version, and is waited for.
	otherVersion
	// noAnswer: the region does not answer, and is waited for.
	noAnswer
)

// unobserved is what there is to say of a Rollout whose status is that of an earlier spec.
const unobserved = "has a change that the controller has not observed"

func (r readiness) String() string {
	return [...]string{"ready", "not ready", "missing", "failed before", "failed", "other version", "no answer"}[r]
}

// failedWithOthers is why a Rollout fails that was not the first to.
const failedWithOthers = "failed with others"

// messageLimit bounds a message about other Rollouts, in bytes.
const messageLimit = 480

// decide says whether a canary may pass a barrier.
func decide(s Snapshot) steps.Progress {
	reasons := map[readiness][]string{}
	var waiting []string
	others := slices.SortedFunc(slices.Values(s.Others), func(a, b Other) int { return cmp.Compare(a.Name, b.Name) })
	for _, other := range others {
		is, why := s.readinessOf(other.Rollout)
		reasons[is] = append(reasons[is], other.Name+" "+why)
		if is != ready {
			waiting = append(waiting, fmt.Sprintf("%s (%s)", other.Name, is))
		}
	}
	barrier := fmt.Sprintf("barrier %s: ", s.Barrier)
	switch failed := reasons[failedSince]; {
	case len(failed) > 0:
		return steps.Progress{Phase: steps.Failed, Message: list(barrier+failedWithOthers+": ", failed)}
	case s.TooFew != "":
		return steps.Progress{Phase: steps.Running, Message: list(barrier, []string{s.TooFew}), Waiting: "more Rollouts"}
	case len(others) == 0:
		return steps.Progress{Phase: steps.Successful, Message: barrier + "there is no other Rollout to wait for"}
	case len(waiting) == 0:
		return steps.Progress{Phase: steps.Successful, Message: list(barrier, reasons[ready])}
	}
	// Rollouts that need a person to act come first.
	sorted := slices.Concat(reasons[failedBefore], reasons[missing], reasons[notReady])
	return steps.Progress{
		Phase:   steps.Running,
		Message: list(fmt.Sprintf("%swaiting for %d of %d: ", barrier, len(waiting), len(others)), sorted),
		Waiting: strings.Join(waiting, ", "),
	}
}

// readinessOf tells whether another Rollout keeps this one from going on, and why, in words
// that follow its name.
func (s Snapshot) readinessOf(r *Rollout) (is readiness, why string) {
	switch {
	case r == nil:
		return missing, "does not exist"
	case r.Unreadable != "":
		return notReady, "cannot be understood: " + r.Unreadable
	case r.Deleted:
		return missing, "is being deleted"
	}
	if at, why, failed := r.failure(); failed {
		return s.readinessAfter(at, why)
	}
	index, has := s.Barrier.in(r.PluginSteps)
	switch {
	case !r.Observed:
		return notReady, unobserved
	case r.Phase == v1alpha1.RolloutPhaseHealthy:
		return ready, "is Healthy"
	case !r.UnderWay:
		return notReady, r.state()
	case !has:
		return notReady, fmt.Sprintf("does not have this barrier and has to become Healthy: it %s", r.state())
	case r.Step > index:
		return ready, "is past it"
	case r.Step == index && r.TimedOut:
		return notReady, "is at it, but has exceeded its progress deadline, and the controller does not call its step any more: promote or retry it"
	case r.Step == index:
		return ready, "is at it"
	default:
		return notReady, fmt.Sprintf("is at step %d of %d, before step %d: it %s", r.Step+1, r.Steps, index+1, r.state())
	}
}

// readinessAfter is readinessOf for a Rollout that has failed at a time.
func (s Snapshot) readinessAfter(at time.Time, why string) (readiness, string) {
	why = inBrackets(why)
	switch {
	case at.IsZero():
		return failedSince, "is being aborted" + why
	case at.Before(s.Since):
		return failedBefore, fmt.Sprintf("failed at %s, before this canary began: retry it%s", clock(at), why)
	default:
		return failedSince, fmt.Sprintf("failed at %s, after this canary began%s", clock(at), why)
	}
}

// afterFailuresUntil returns a Since for which all failures up to now count as older, and all
// later ones as newer.
func (s Snapshot) afterFailuresUntil(now time.Time) time.Time {
	since := now.UTC().Truncate(time.Second)
	for _, other := range s.Others {
		if other.Rollout == nil {
			continue
		}
		if at, _, failed := other.Rollout.failure(); failed && !at.Before(since) {
			since = at.UTC().Add(time.Second)
		}
	}
	return since
}

func inBrackets(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// list joins what there is to say about Rollouts, as far as it fits into a message.
func list(start string, all []string) string {
	message := start + all[0]
	for i, words := range all[1:] {
		left := len(all) - 1 - i
		more := ""
		if left > 1 {
			more = fmt.Sprintf("; and %d more", left-1)
		}
		if len(message)+len("; ")+len(words)+len(more) > messageLimit {
			return fmt.Sprintf("%s; and %d more", message, left)
		}
		message += "; " + words
	}
	return message
}
