package demo

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTimelineOrder delivers the states of two objects in the order in which
// two watches may: each in its own order, the one before the other.
func TestTimelineOrder(t *testing.T) {
	var line Timeline
	line.AddSplit(10, start, "")
	line.AddSplit(14, start, text20)
	line.AddSplit(18, start, "")
	line.AddStatus(12, start, Status{Weight: 0})
	line.AddStatus(16, start, Status{Weight: 20})
	line.AddStatus(20, start, Status{Weight: 0})
	want := []Seen{
		{At: start, Status: Status{Weight: 0}, Split: ""},
		{At: start, Status: Status{Weight: 0}, Split: text20},
		{At: start, Status: Status{Weight: 20}, Split: text20},
		{At: start, Status: Status{Weight: 20}, Split: ""},
		{At: start, Status: Status{Weight: 0}, Split: ""},
	}
	if diff := cmp.Diff(want, line.Seen()); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}

	line.Forget()
	if diff := cmp.Diff(want[len(want)-1:], line.Seen()); diff != "" {
		t.Errorf("seen after Forget (-want +got):\n%s", diff)
	}
}

func TestTimelineIncomplete(t *testing.T) {
	var line Timeline
	if _, ok := line.Last(); ok {
		t.Error("an empty timeline has a last moment")
	}
	line.Forget()
	line.AddStatus(1, start, Status{})
	if _, ok := line.Last(); ok {
		t.Error("a timeline without a split has a last moment")
	}
}

func TestStatusOf(t *testing.T) {
	step, verified := int32(1), true
	since := metav1.NewTime(start)
	ro := &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Generation: 3},
		Spec: v1alpha1.RolloutSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "demo:yellow"}}},
		}},
		Status: v1alpha1.RolloutStatus{
			Phase: "Paused", Message: "CanaryPauseStep", ObservedGeneration: "3",
			CurrentStepIndex: &step, StableRS: "old", CurrentPodHash: "new",
			PauseConditions: []v1alpha1.PauseCondition{{Reason: v1alpha1.PauseReasonCanaryPauseStep, StartTime: since}},
			Canary:          v1alpha1.CanaryStatus{Weights: &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: 20}, Verified: &verified}},
			Replicas:        3, UpdatedReplicas: 1, ReadyReplicas: 2,
		},
	}
	want := Status{
		Phase: "Paused", Message: "CanaryPauseStep", Step: 1, Weight: 20, Verified: true, Paused: true,
		Image: "demo:yellow", Replicas: 3, Updated: 1, Ready: 2,
	}
	got, current := statusOf(ro)
	if diff := cmp.Diff(want, got); diff != "" || !current {
		t.Errorf("status, current %t (-want +got):\n%s", current, diff)
	}

	ro.Generation = 4
	if _, current := statusOf(ro); current {
		t.Error("a status of an older spec counts as current")
	}
	ro.Status.CurrentPodHash = ro.Status.StableRS
	if got, _ := statusOf(ro); !got.Promoted {
		t.Error("a Rollout whose current version is the stable one is not promoted")
	}
	if got, _ := statusOf(&v1alpha1.Rollout{}); got != (Status{}) {
		t.Errorf("status of a Rollout without one: %+v", got)
	}
}

func TestOfImage(t *testing.T) {
	old, fresh := at(6, 0, ""), at(0, 0, "")
	old.Image, fresh.Image = "blue", "yellow"
	all := []Seen{old, fresh, fresh}
	if got := ofImage(all, "yellow"); len(got) != 2 {
		t.Errorf("%d moments of the new image, want 2", len(got))
	}
	if got := ofImage(all, "green"); got != nil {
		t.Errorf("moments of an image that never was: %v", got)
	}
}
