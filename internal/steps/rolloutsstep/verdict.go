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

// Snapshot is the input of a verdict, for Rollouts of this cluster and of others alike.
type Snapshot struct {
	Barrier Barrier
	// Since is when this canary began: when its oldest pod was created, or when it was
	// retried with the pods that it had. Before the first setWeight there may be no pods:
	// failures before the canary came to the barrier then count as older.
	Since time.Time
	// Others are the Rollouts that are waited for.
	Others []Other
	// WhyNoOthers says why there are no others to wait for; empty if the canary may then go on.
	WhyNoOthers string
}

// Other is a Rollout that is waited for.
type Other struct {
	// Name is for people, such as "demo/checkout". It is unique.
	Name string
	// Rollout is nil if it does not exist.
	Rollout *Rollout
}

// standing is how another Rollout stands to this one.
type standing int

const (
	// fine: this Rollout may go on.
	fine standing = iota
	// before: the other Rollout is waited for.
	before
	// missing: the other Rollout does not exist (any more), and is waited for.
	missing
	// failedBefore: the other Rollout failed before this canary began, and is waited for.
	failedBefore
	// failedSince: the other Rollout has failed since this canary began. This one fails
	// too.
	failedSince
)

func (s standing) String() string {
	return [...]string{"fine", "before", "missing", "failed before", "failed"}[s]
}

// messageLimit bounds a message about other Rollouts, in bytes.
const messageLimit = 480

// decide says whether a canary may pass a barrier.
func decide(s Snapshot) steps.Progress {
	words := map[standing][]string{}
	var waiting []string
	others := slices.SortedFunc(slices.Values(s.Others), func(a, b Other) int { return cmp.Compare(a.Name, b.Name) })
	for _, other := range others {
		stands, why := s.judge(other.Rollout)
		words[stands] = append(words[stands], other.Name+" "+why)
		if stands != fine {
			waiting = append(waiting, fmt.Sprintf("%s (%s)", other.Name, stands))
		}
	}
	switch failed := words[failedSince]; {
	case len(failed) > 0:
		return steps.Progress{Phase: steps.Failed, Message: listed(fmt.Sprintf("barrier %s: failed with others: ", s.Barrier), failed)}
	case len(others) == 0 && s.WhyNoOthers != "":
		return steps.Progress{Phase: steps.Running, Message: listed(fmt.Sprintf("barrier %s: ", s.Barrier), []string{s.WhyNoOthers}), Waiting: "other Rollouts"}
	case len(others) == 0:
		return steps.Progress{Phase: steps.Successful, Message: fmt.Sprintf("barrier %s: there is no other Rollout to wait for", s.Barrier)}
	case len(waiting) == 0:
		return steps.Progress{Phase: steps.Successful, Message: listed(fmt.Sprintf("barrier %s: ", s.Barrier), words[fine])}
	}
	// Rollouts that need a person to act come first.
	said := slices.Concat(words[failedBefore], words[missing], words[before])
	return steps.Progress{
		Phase:   steps.Running,
		Message: listed(fmt.Sprintf("barrier %s: waiting for %d of %d: ", s.Barrier, len(waiting), len(others)), said),
		Waiting: strings.Join(waiting, ", "),
	}
}

// judge tells how another Rollout stands to this one, in words that follow its name.
func (s Snapshot) judge(r *Rollout) (stands standing, why string) {
	switch {
	case r == nil:
		return missing, "does not exist"
	case r.Unreadable != "":
		return before, "cannot be understood: " + r.Unreadable
	case r.Deleted:
		return missing, "is being deleted"
	}
	if at, why, failed := r.failure(); failed {
		return s.judgeFailure(at, why)
	}
	index, has := s.Barrier.in(r.Places)
	switch {
	case !r.Observed:
		return before, "has a change that the controller has not taken up"
	case r.Phase == v1alpha1.RolloutPhaseHealthy:
		return fine, "is Healthy"
	case !r.UnderWay:
		return before, r.state()
	case !has:
		return before, fmt.Sprintf("does not have this barrier and has to become Healthy: it %s", r.state())
	case r.Step > index:
		return fine, "is past it"
	case r.Step == index && r.TimedOut:
		return before, "stands at it, but has exceeded its progress deadline, and the controller does not call its step any more: promote or retry it"
	case r.Step == index:
		return fine, "stands at it"
	default:
		return before, fmt.Sprintf("is at step %d of %d, before step %d: it %s", r.Step+1, r.Steps, index+1, r.state())
	}
}

func (s Snapshot) judgeFailure(at time.Time, why string) (standing, string) {
	if why != "" {
		why = " (" + why + ")"
	}
	switch {
	case at.IsZero():
		return failedSince, "is being aborted" + why
	case at.After(s.Since):
		return failedSince, fmt.Sprintf("failed at %s, after this canary began%s", clock(at), why)
	default:
		return failedBefore, fmt.Sprintf("failed at %s, before this canary began: retry it%s", clock(at), why)
	}
}

// upTo returns a Since for which all failures up to now count as older, and all later ones
// as newer: the times of the API server are whole seconds.
func (s Snapshot) upTo(now time.Time) time.Time {
	since := now.UTC().Truncate(time.Second).Add(-time.Second)
	for _, other := range s.Others {
		if other.Rollout == nil {
			continue
		}
		if at, _, failed := other.Rollout.failure(); failed && at.After(since) {
			since = at.UTC()
		}
	}
	return since
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// listed joins what is said about Rollouts, as far as it fits into a message.
func listed(start string, said []string) string {
	message := start
	for i, words := range said {
		more := ""
		if left := len(said) - i - 1; left > 0 {
			more = fmt.Sprintf("; and %d more", left)
		}
		if i > 0 && len(message)+len("; ")+len(words)+len(more) > messageLimit {
			return fmt.Sprintf("%s; and %d more", message, len(said)-i)
		}
		if i > 0 {
			message += "; "
		}
		message += words
	}
	return message
}
