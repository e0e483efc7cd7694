package demo

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// Status is what the demo reads from a Rollout.
type Status struct {
	Phase, Message string
	// Step is the index of the current step; the number of steps when all are
	// done.
	Step int32
	// Weight is the canary's, 0..100, and Verified whether the traffic router
	// has confirmed it.
	Weight   int32
	Verified bool
	// Paused is at a pause step.
	Paused bool
	// Aborted and Promoted say how it ended. A Rollout that has just got a new
	// image is neither.
	Aborted, Promoted bool
	// Image is what it is to run.
	Image                    string
	Replicas, Updated, Ready int32
}

// statusOf reads a Rollout. It returns false as long as its status is of an
// older spec.
func statusOf(ro *v1alpha1.Rollout) (Status, bool) {
	s := Status{
		Phase:    string(ro.Status.Phase),
		Message:  ro.Status.Message,
		Aborted:  ro.Status.Abort,
		Promoted: ro.Status.StableRS != "" && ro.Status.StableRS == ro.Status.CurrentPodHash,
		Image:    image(ro.Spec.Template.Spec.Containers),
		Replicas: ro.Status.Replicas, Updated: ro.Status.UpdatedReplicas, Ready: ro.Status.ReadyReplicas,
	}
	if ro.Status.CurrentStepIndex != nil {
		s.Step = *ro.Status.CurrentStepIndex
	}
	if weights := ro.Status.Canary.Weights; weights != nil {
		s.Weight = weights.Canary.Weight
		s.Verified = weights.Verified != nil && *weights.Verified
	}
	for _, condition := range ro.Status.PauseConditions {
		if condition.Reason == v1alpha1.PauseReasonCanaryPauseStep {
			s.Paused = true
		}
	}
	return s, ro.Status.ObservedGeneration == strconv.FormatInt(ro.Generation, 10)
}

func image(containers []corev1.Container) string {
	if len(containers) == 0 {
		return ""
	}
	return containers[0].Image
}

// Seen is what could be seen at one time: a Rollout and its split, as the router has
// written it.
type Seen struct {
	At time.Time
	Status
	Split string
}

// Timeline merges the states that two watches have delivered. The API server numbers
// all writes; these numbers tell for certain which of two objects was written first,
// whichever watch was quicker.
type Timeline struct {
	writes []write
}

// write is one state of one of the two objects.
type write struct {
	revision uint64
	at       time.Time
	status   *Status // of the Rollout
	split    *string // as the router has written it
}

// AddStatus adds a state of the Rollout, as of a revision, delivered at a time.
func (t *Timeline) AddStatus(revision uint64, at time.Time, s Status) {
	t.add(write{revision: revision, at: at, status: &s})
}

// AddSplit adds a state of the split.
func (t *Timeline) AddSplit(revision uint64, at time.Time, text string) {
	t.add(write{revision: revision, at: at, split: &text})
}

func (t *Timeline) add(w write) {
	i, _ := slices.BinarySearchFunc(t.writes, w.revision+1, func(have write, revision uint64) int {
		return cmp.Compare(have.revision, revision)
	})
	t.writes = slices.Insert(t.writes, i, w)
}

// Seen returns the state after each write, in the order of the writes, beginning with
// the first at which both objects are known.
func (t *Timeline) Seen() []Seen {
	var (
		list   []Seen
		status *Status
		split  *string
	)
	for _, w := range t.writes {
		if w.status != nil {
			status = w.status
		}
		if w.split != nil {
			split = w.split
		}
		if status != nil && split != nil {
			list = append(list, Seen{At: w.at, Status: *status, Split: *split})
		}
	}
	return list
}

// Last returns the present state, and false as long as not both objects are known.
func (t *Timeline) Last() (Seen, bool) {
	list := t.Seen()
	if len(list) == 0 {
		return Seen{}, false
	}
	return list[len(list)-1], true
}

// Forget drops everything but the present state, for the next act.
func (t *Timeline) Forget() {
	var status, split *write
	for i := range t.writes {
		if t.writes[i].status != nil {
			status = &t.writes[i]
		}
		if t.writes[i].split != nil {
			split = &t.writes[i]
		}
	}
	var kept []write
	for _, w := range []*write{status, split} {
		if w != nil {
			kept = append(kept, *w)
		}
	}
	slices.SortFunc(kept, func(a, b write) int { return cmp.Compare(a.revision, b.revision) })
	t.writes = kept
}
