package rolloutsstep

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// unreachableAfter is how long a region does not answer until OnUnreachable counts.
const unreachableAfter = time.Minute

// awayLimit bounds why a region does not answer, in bytes.
const awayLimit = 200

// RegionSnapshot is the input of a decision over regions.
type RegionSnapshot struct {
	// Barrier and Since are as in Snapshot. Failures have the times of the clocks of their
	// clusters.
	Barrier Barrier
	Since   time.Time
	// Version is this Rollout's.
	Version       string
	Until         Until
	OnUnreachable OnUnreachable
	// Own is the name of this Rollout's own region; empty as long as it is not known.
	Own     string
	Regions []Region
}

// Region is what is known of the Rollouts of a cluster.
type Region struct {
	Name string
	// SameAs is the name of another region that has the same Rollouts; empty for none.
	SameAs string
	// Others are those that are waited for, as last seen.
	Others []RegionRollout
	// TooFew says that there have to be more; empty if they are enough.
	TooFew string
	// Unreachable is why the region does not answer, UnreachableSince since when; it has not
	// answered for Away. Unreachable is empty if it answers.
	Unreachable      string
	UnreachableSince time.Time
	Away             time.Duration
}

// RegionRollout is a Rollout of another region, or another Rollout of this one.
type RegionRollout struct {
	Other
	// Version is its version; if that is not known, VersionUnknown is why.
	Version, VersionUnknown string
	// Failed is the Rollout as it was when it failed with this canary's version; nil if that is
	// not known to have happened.
	Failed *Rollout
}

// decideRegions says whether a canary may pass a barrier with other regions.
func decideRegions(s RegionSnapshot) steps.Progress {
	place := slices.IndexFunc(s.Regions, func(r Region) bool { return r.Name == s.Own })
	var v verdict
	for i, region := range s.Regions {
		s.add(&v, region, s.Until != UntilPromoted || i < place)
	}
	barrier := fmt.Sprintf("barrier %s: ", s.Barrier)
	if len(v.failed) > 0 {
		return steps.Progress{Phase: steps.Failed, Message: list(barrier+failedWithOthers+": ", v.failed)}
	}
	if s.Until == UntilPromoted && place < 0 {
		return s.withoutPlace(barrier)
	}
	if len(v.waiting) > 0 {
		// What needs a person to act comes first.
		sorted := slices.Concat(v.reasons[noAnswer], v.reasons[failedBefore], v.reasons[missing], v.reasons[otherVersion], v.reasons[notReady])
		return steps.Progress{
			Phase:   steps.Running,
			Message: list(fmt.Sprintf("%swaiting for %d of %d: ", barrier, len(v.waiting), v.awaited), sorted),
			Waiting: strings.Join(v.waiting, ", "),
		}
	}
	passed := slices.Concat(v.leftOut, v.reasons[ready])
	switch {
	case len(passed) > 0:
		return steps.Progress{Phase: steps.Successful, Message: list(barrier, passed)}
	case place == 0 && s.Until == UntilPromoted:
		return steps.Progress{Phase: steps.Successful, Message: fmt.Sprintf("%s%s is the first of the clusters", barrier, s.Own)}
	}
	return steps.Progress{Phase: steps.Successful, Message: barrier + "there is no other Rollout to wait for"}
}

// verdict is what there is to say about regions.
type verdict struct {
	// failed is why this canary fails, leftOut which regions are left out.
	failed, leftOut []string
	// reasons is why others keep this one from going on, or do not. awaited is how many are
	// waited for; waiting are those that do keep it from going on.
	reasons map[readiness][]string
	awaited int
	waiting []string
}

func (v *verdict) add(about string, is readiness, why string) {
	if v.reasons == nil {
		v.reasons = map[readiness][]string{}
	}
	v.awaited++
	v.reasons[is] = append(v.reasons[is], about+" "+why)
	if is != ready {
		v.waiting = append(v.waiting, fmt.Sprintf("%s (%s)", about, is))
	}
}

// add adds what there is to say about a region. A failure counts whether the region is awaited
// or not, and whether it answers or not.
func (s RegionSnapshot) add(v *verdict, region Region, awaited bool) {
	answers, failedOnce := region.Unreachable == "", false
	for _, other := range region.Others {
		about := fmt.Sprintf("%s in %s", other.Name, region.Name)
		is, why := s.readinessOf(other)
		switch {
		case is == failedSince:
			v.failed = append(v.failed, about+" "+why)
		case awaited && (answers || is == failedBefore):
			v.add(about, is, why)
			failedOnce = failedOnce || is == failedBefore
		}
	}
	if !awaited {
		return
	}
	if answers {
		if region.TooFew != "" {
			v.add(region.Name, missing, "has too few Rollouts: "+region.TooFew)
		}
		return
	}
	away := region.away()
	switch long := region.Away >= unreachableAfter; {
	case long && s.OnUnreachable == OnUnreachableFail:
		v.failed = append(v.failed, region.Name+" "+away)
	case long && s.OnUnreachable == OnUnreachableIgnore && !failedOnce:
		v.leftOut = append(v.leftOut, fmt.Sprintf("%s is left out: it %s", region.Name, away))
	default:
		v.add(region.Name, noAnswer, away)
	}
}

// away says since when a region has not answered, and why.
func (r Region) away() string {
	return fmt.Sprintf("has not answered since %s: %s", clock(r.UnreachableSince), bound.Shorten(r.Unreachable, awayLimit))
}

// withoutPlace answers for a Rollout whose place in the list of clusters is not known.
func (s RegionSnapshot) withoutPlace(barrier string) steps.Progress {
	var names, away, waiting []string
	for _, region := range s.Regions {
		names = append(names, region.Name)
		if region.Unreachable != "" {
			away = append(away, region.Name+" "+region.away())
			waiting = append(waiting, fmt.Sprintf("%s (%s)", region.Name, noAnswer))
		}
	}
	if len(away) == 0 {
		away = []string{fmt.Sprintf("want its cluster in the list, which has %s", strings.Join(names, ", "))}
		waiting = []string{"its own cluster"}
	}
	return steps.Progress{
		Phase:   steps.Running,
		Message: list(barrier+"with until: Promoted a Rollout waits for the clusters before its own, and this one is in none that answers: ", away),
		Waiting: strings.Join(waiting, ", "),
	}
}

// readinessOf tells whether a Rollout keeps this one from going on, and why, in words that
// follow its name.
func (s RegionSnapshot) readinessOf(o RegionRollout) (is readiness, why string) {
	r := o.Rollout
	sameNow := r != nil && r.Unreadable == "" && !r.Deleted && r.Observed && o.VersionUnknown == "" && o.Version == s.Version
	if o.Failed != nil && !sameNow {
		if at, why, _ := o.Failed.failure(); !at.Before(s.Since) {
			return failedSince, fmt.Sprintf("failed at %s with this version, after this canary began, and has been changed since%s", clock(at), inBrackets(why))
		}
	}
	same := Snapshot{Barrier: s.Barrier, Since: s.Since}
	switch {
	case r == nil, r.Unreadable != "", r.Deleted:
		return same.readinessOf(r)
	case !r.Observed:
		// An abort may be that of the version before.
		return notReady, unobserved
	case o.VersionUnknown != "":
		return notReady, fmt.Sprintf("has a version that is not known: %s", shorten(o.VersionUnknown))
	case o.Version != s.Version:
		return otherVersion, fmt.Sprintf("has another version (%s, and this one %s): it %s", differing(o.Version, s.Version), differing(s.Version, o.Version), r.state())
	}
	is, why = same.readinessOf(r)
	if s.Until == UntilPromoted && (is == ready || is == notReady) && r.Phase != v1alpha1.RolloutPhaseHealthy {
		return notReady, "has to become Healthy: it " + r.state()
	}
	return is, why
}

// afterFailuresUntil is Snapshot.afterFailuresUntil, over all regions.
func (s RegionSnapshot) afterFailuresUntil(now time.Time) time.Time {
	var all Snapshot
	for _, region := range s.Regions {
		for _, other := range region.Others {
			all.Others = append(all.Others, other.Other, Other{Rollout: other.Failed})
		}
	}
	return all.afterFailuresUntil(now)
}
