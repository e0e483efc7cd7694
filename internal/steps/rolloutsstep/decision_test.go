package rolloutsstep

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

const plugin = "acme/check-others"

// noon is when this canary's oldest pod was created.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
}

// check is a step of the plugin, with a configuration ("" for none).
func check(config string) v1alpha1.CanaryStep {
	return v1alpha1.CanaryStep{Plugin: &v1alpha1.PluginStep{Name: plugin, Config: json.RawMessage(config)}}
}

func weight(percent int32) v1alpha1.CanaryStep { return v1alpha1.CanaryStep{SetWeight: &percent} }

// canary returns a Rollout that is at a step of its canary, as the controller has it:
// setWeight 20, check, setWeight 50, check, setWeight 100.
func canary(name string, step int32, change ...func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
	ro := &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Generation: 2},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			Steps: []v1alpha1.CanaryStep{weight(20), check(""), weight(50), check(""), weight(100)},
		}}},
		Status: v1alpha1.RolloutStatus{
			ObservedGeneration: "2", StableRS: "v1", CurrentPodHash: "v2", CurrentStepIndex: &step, UpdatedReplicas: 1,
			Phase: v1alpha1.RolloutPhaseProgressing, Message: "more replicas need to be updated",
		},
	}
	for _, change := range change {
		change(ro)
	}
	return ro
}

func healthy(ro *v1alpha1.Rollout) {
	steps := int32(0)
	if ro.Spec.Strategy.Canary != nil {
		steps = int32(len(ro.Spec.Strategy.Canary.Steps))
	}
	ro.Status.StableRS, ro.Status.CurrentStepIndex = ro.Status.CurrentPodHash, &steps
	ro.Status.Phase, ro.Status.Message = v1alpha1.RolloutPhaseHealthy, ""
}

// aborted makes a Rollout what the controller makes of it after an abort or a failed
// step.
func aborted(seconds int) func(*v1alpha1.Rollout) {
	return func(ro *v1alpha1.Rollout) {
		when, first := at(seconds), int32(0)
		ro.Status.Abort, ro.Status.AbortedAt, ro.Status.CurrentStepIndex = true, &when, &first
		ro.Status.Phase, ro.Status.Message = v1alpha1.RolloutPhaseDegraded, "RolloutAborted: Rollout aborted update to revision 2"
		ro.Status.Conditions = []v1alpha1.RolloutCondition{{Type: v1alpha1.RolloutProgressing, Status: corev1.ConditionFalse, Reason: "RolloutAborted", LastTransitionTime: when}}
	}
}

func invalid(seconds int) func(*v1alpha1.Rollout) {
	return func(ro *v1alpha1.Rollout) {
		ro.Status.Phase, ro.Status.Message = v1alpha1.RolloutPhaseDegraded, "InvalidSpec: no such Service"
		ro.Status.Conditions = []v1alpha1.RolloutCondition{{Type: v1alpha1.InvalidSpec, Status: corev1.ConditionTrue, Reason: "InvalidSpec", Message: "no such Service", LastTransitionTime: at(seconds)}}
	}
}

func timedOut(ro *v1alpha1.Rollout) {
	ro.Status.Phase, ro.Status.Message = v1alpha1.RolloutPhaseDegraded, "ProgressDeadlineExceeded: ReplicaSet has timed out progressing."
	ro.Status.Conditions = []v1alpha1.RolloutCondition{{Type: v1alpha1.RolloutProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", LastTransitionTime: at(60)}}
}

func paused(ro *v1alpha1.Rollout) {
	ro.Status.Phase, ro.Status.Message, ro.Status.ControllerPause = v1alpha1.RolloutPhasePaused, "CanaryPauseStep", true
}

func withSteps(list ...v1alpha1.CanaryStep) func(*v1alpha1.Rollout) {
	return func(ro *v1alpha1.Rollout) { ro.Spec.Strategy.Canary.Steps = list }
}

// blueGreen makes a Rollout a blue-green one.
func blueGreen(ro *v1alpha1.Rollout) {
	ro.Spec.Strategy = v1alpha1.RolloutStrategy{BlueGreen: &v1alpha1.BlueGreenStrategy{ActiveService: "active"}}
	ro.Status.CurrentStepIndex = nil
}

// read returns a Rollout as the watch keeps it.
func read(t testing.TB, ro *v1alpha1.Rollout) *Rollout {
	t.Helper()
	text, err := json.Marshal(ro)
	if err != nil {
		t.Fatal(err)
	}
	r := readRollout(text)
	return &r
}

func firstBarrier() Barrier {
	return Barrier{Name: plugin, Occurrence: 1, naming: naming{plugin: plugin}}
}

func TestAnotherRolloutIs(t *testing.T) {
	tests := []struct {
		name   string
		other  *v1alpha1.Rollout
		want   readiness
		saying string
	}{
		{"ready when Healthy", canary("b", 0, healthy), ready, "is Healthy"},
		{"ready when Healthy without this barrier", canary("b", 0, withSteps(weight(20)), healthy), ready, "is Healthy"},
		{"waited for when Healthy, with a change that is not observed", canary("b", 0, healthy, func(ro *v1alpha1.Rollout) { ro.Generation = 3 }), notReady, "has a change that the controller has not observed"},
		{"waited for when its step is of an earlier generation", canary("b", 3, func(ro *v1alpha1.Rollout) { ro.Generation = 3 }), notReady, "has a change that the controller has not observed"},
		{"waited for when its Deployment has a change that is not observed", canary("b", 0, healthy, func(ro *v1alpha1.Rollout) {
			ro.Spec.WorkloadRef = &v1alpha1.ObjectRef{Kind: "Deployment", Name: "b"}
			ro.Annotations = map[string]string{"rollout.argoproj.io/workload-generation": "7"}
			ro.Status.WorkloadObservedGeneration = "6"
		}), notReady, "has a change that the controller has not observed"},
		{"ready when its Deployment is observed", canary("b", 0, healthy, func(ro *v1alpha1.Rollout) {
			ro.Spec.WorkloadRef = &v1alpha1.ObjectRef{Kind: "Deployment", Name: "b"}
			ro.Annotations = map[string]string{"rollout.argoproj.io/workload-generation": "7"}
			ro.Status.WorkloadObservedGeneration = "7"
		}), ready, "is Healthy"},
		{"waited for before the barrier", canary("b", 0), notReady, "is at step 1 of 5, before step 2: it is Progressing (more replicas need to be updated)"},
		{"waited for before the barrier without a step index", canary("b", 0, func(ro *v1alpha1.Rollout) { ro.Status.CurrentStepIndex = nil }), notReady, "is at step 1 of 5, before step 2: it is Progressing (more replicas need to be updated)"},
		{"waited for when paused before the barrier", canary("b", 0, paused), notReady, "is at step 1 of 5, before step 2: it is Paused (CanaryPauseStep)"},
		{"waited for when its deadline has passed before the barrier", canary("b", 0, timedOut), notReady, "is at step 1 of 5, before step 2: it is Degraded (ProgressDeadlineExceeded: ReplicaSet has timed out progressing.)"},
		{"ready at the barrier", canary("b", 1), ready, "is at it"},
		{"ready when paused at the barrier", canary("b", 1, paused), ready, "is at it"},
		{"ready at the barrier of its first step", canary("b", 0, withSteps(check(""))), ready, "is at it"},
		{"waited for at the barrier after its deadline", canary("b", 1, timedOut), notReady, "is at it, but has exceeded its progress deadline, and the controller does not call its step any more: promote or retry it"},
		{"ready past the barrier", canary("b", 2), ready, "is past it"},
		{"ready past the barrier when paused", canary("b", 2, paused), ready, "is past it"},
		{"ready past the barrier after its deadline", canary("b", 2, timedOut), ready, "is past it"},
		{"ready past all steps", canary("b", 5), ready, "is past it"},
		{"waited for without this barrier", canary("b", 1, withSteps(weight(20), weight(50))), notReady, "does not have this barrier and has to become Healthy: it is Progressing (more replicas need to be updated)"},
		{"waited for with no steps", canary("b", 0, withSteps()), notReady, "does not have this barrier and has to become Healthy: it is Progressing (more replicas need to be updated)"},
		{"waited for when no update is under way and pods are not available", canary("b", 5, func(ro *v1alpha1.Rollout) { ro.Status.StableRS = "v2" }), notReady, "is Progressing (more replicas need to be updated)"},
		{"waited for when it is held at its version", canary("b", 5, func(ro *v1alpha1.Rollout) { ro.Status.StableRS = "v2"; paused(ro) }), notReady, "is Paused (CanaryPauseStep)"},
		{"waited for when it is deployed for the first time", canary("b", 3, func(ro *v1alpha1.Rollout) { ro.Status.StableRS = "" }), notReady, "is Progressing (more replicas need to be updated)"},
		{"waited for without a status", &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, notReady, "has a change that the controller has not observed"},
		{"missing when it is being deleted", canary("b", 1, func(ro *v1alpha1.Rollout) { now := at(0); ro.DeletionTimestamp = &now }), missing, "is being deleted"},

		{"failed when aborted later", canary("b", 1, aborted(1)), failedSince, "failed at 2026-11-22T12:00:01Z, after this canary began (RolloutAborted: Rollout aborted update to revision 2)"},
		{"failed when aborted later, whatever has changed since", canary("b", 1, aborted(1), func(ro *v1alpha1.Rollout) { ro.Generation = 3 }), failedSince, "failed at"},
		{"failed when aborted at the barrier of its first step", canary("b", 0, withSteps(check("")), aborted(1)), failedSince, "failed at"},
		{"failed when its abort is not carried out yet", canary("b", 1, func(ro *v1alpha1.Rollout) { ro.Status.Abort = true }), failedSince, "is being aborted"},
		{"waited for when aborted before", canary("b", 1, aborted(-1)), failedBefore, "failed at 2026-11-22T11:59:59Z, before this canary began: retry it (RolloutAborted: Rollout aborted update to revision 2)"},
		{"failed when aborted in the second in which the canary began", canary("b", 1, aborted(0)), failedSince, "failed at"},
		{"waited for once it is retried", canary("b", 0, aborted(1), func(ro *v1alpha1.Rollout) { ro.Status.Abort = false }), notReady, "is at step 1 of 5, before step 2: it is Degraded"},
		{"failed when its spec is invalid since then", canary("b", 1, invalid(1)), failedSince, "failed at 2026-11-22T12:00:01Z, after this canary began (no such Service)"},
		{"waited for when its spec is invalid since before", canary("b", 1, invalid(-1)), failedBefore, "retry it (no such Service)"},
		{"waited for when its spec is invalid and it never ran", canary("b", 1, invalid(1), func(ro *v1alpha1.Rollout) { ro.Status.StableRS = "" }), notReady, "is Degraded (InvalidSpec: no such Service)"},

		{"ready when it is blue-green and Healthy", canary("b", 0, blueGreen, healthy), ready, "is Healthy"},
		{"waited for when it is blue-green and paused", canary("b", 0, blueGreen, paused), notReady, "does not have this barrier and has to become Healthy: it is Paused (CanaryPauseStep)"},
		{"failed when it is blue-green and aborted", canary("b", 0, blueGreen, aborted(1), func(ro *v1alpha1.Rollout) { ro.Status.CurrentStepIndex = nil }), failedSince, "failed at"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := Snapshot{Barrier: firstBarrier(), Since: noon}
			got, saying := s.readinessOf(read(t, test.other))
			if got != test.want || !strings.HasPrefix(saying, test.saying) && !strings.HasSuffix(saying, test.saying) {
				t.Errorf("%v: %q, want %v: %q", got, saying, test.want, test.saying)
			}
		})
	}
}

func TestARolloutThatCannotBeReadIsWaitedFor(t *testing.T) {
	r := readRollout([]byte(`{"metadata": {"generation": 1}, "spec": {"strategy": {"canary": {"steps": "none"}}}, "status": {"observedGeneration": "1", "phase": "Healthy"}}`))
	got, saying := Snapshot{Barrier: firstBarrier(), Since: noon}.readinessOf(&r)
	if got != notReady || !strings.HasPrefix(saying, "cannot be understood: ") {
		t.Errorf("%v: %q", got, saying)
	}
}

func TestDecide(t *testing.T) {
	other := func(name string, ro *v1alpha1.Rollout) Other {
		if ro == nil {
			return Other{Name: "demo/" + name}
		}
		return Other{Name: "demo/" + name, Rollout: read(t, ro)}
	}
	tests := []struct {
		name             string
		others           []Other
		tooFew           string
		phase            steps.Phase
		message, waiting string
	}{
		{"all are fine", []Other{other("c", canary("c", 2)), other("b", canary("b", 1)), other("d", canary("d", 0, healthy))}, "", steps.Successful,
			"barrier acme/check-others#1: demo/b is at it; demo/c is past it; demo/d is Healthy", ""},
		{"one is missing", []Other{other("c", canary("c", 2)), other("b", nil)}, "", steps.Running,
			"barrier acme/check-others#1: waiting for 1 of 2: demo/b does not exist", "demo/b (missing)"},
		{"what needs somebody comes first", []Other{other("b", canary("b", 0, paused)), other("c", canary("c", 0, aborted(-9)))}, "", steps.Running,
			"barrier acme/check-others#1: waiting for 2 of 2: demo/c failed at 2026-11-22T11:59:51Z, before this canary began: retry it (RolloutAborted: Rollout aborted update to revision 2); demo/b is at step 1 of 5, before step 2: it is Paused (CanaryPauseStep)",
			"demo/b (not ready), demo/c (failed before)"},
		{"one has failed", []Other{other("b", canary("b", 0)), other("c", canary("c", 0, aborted(9))), other("d", canary("d", 0, aborted(-9)))}, "", steps.Failed,
			"barrier acme/check-others#1: failed with others: demo/c failed at 2026-11-22T12:00:09Z, after this canary began (RolloutAborted: Rollout aborted update to revision 2)", ""},
		{"one has failed because of others", []Other{other("b", canary("b", 0, aborted(9), func(ro *v1alpha1.Rollout) {
			ro.Status.Message += ": Step Plugin 2 (acme/check-others) failed: barrier acme/check-others#1: failed with others: demo/c failed (failed with others: demo/d failed)"
		}))}, "", steps.Failed,
			"barrier acme/check-others#1: failed with others: demo/b failed at 2026-11-22T12:00:09Z, after this canary began (RolloutAborted: Rollout aborted update to revision 2: Step Plugin 2 (acme/check-others) failed: barrier acme/check-others#1: failed with others)", ""},
		{"there is nobody", nil, "", steps.Successful, "barrier acme/check-others#1: there is no other Rollout to wait for", ""},
		{"too few are selected", []Other{other("b", canary("b", 1))}, "min is 2", steps.Running, "barrier acme/check-others#1: min is 2", "more Rollouts"},
		{"too few are selected, and one has failed", []Other{other("b", canary("b", 0, aborted(9)))}, "min is 2", steps.Failed,
			"barrier acme/check-others#1: failed with others: demo/b failed at 2026-11-22T12:00:09Z, after this canary began (RolloutAborted: Rollout aborted update to revision 2)", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := decide(Snapshot{Barrier: firstBarrier(), Since: noon, Others: test.others, TooFew: test.tooFew})
			if got.Phase != test.phase || got.Message != test.message || got.Waiting != test.waiting {
				t.Errorf("%s\n %q\n(%q), want %s\n %q\n(%q)", got.Phase, got.Message, got.Waiting, test.phase, test.message, test.waiting)
			}
		})
	}
}

// A message of the status has at most 512 bytes.
func TestMessagesAreBounded(t *testing.T) {
	var others []Other
	for i := range 300 {
		ro := canary("b", 0)
		ro.Status.Message = strings.Repeat("é", 1000)
		others = append(others, Other{Name: fmt.Sprintf("a-long-namespace/and-a-long-name-%03d", i), Rollout: read(t, ro)})
	}
	all := decide(Snapshot{Barrier: firstBarrier(), Since: noon, Others: others})
	if len(all.Message) > 512 || !strings.HasSuffix(all.Message, "; and 299 more") && !strings.HasSuffix(all.Message, "; and 298 more") {
		t.Errorf("%d bytes: %q", len(all.Message), all.Message)
	}
	less := decide(Snapshot{Barrier: firstBarrier(), Since: noon, Others: others[1:]})
	if less.Waiting == all.Waiting {
		t.Error("a wait for other Rollouts is not told from this one")
	}
	again := decide(Snapshot{Barrier: firstBarrier(), Since: noon, Others: append(others[200:300:300], others[:200]...)})
	if again.Waiting != all.Waiting || again.Message != all.Message {
		t.Error("the order in which Rollouts are found makes a difference")
	}
	for i := range others {
		*others[i].Rollout = *read(t, canary("b", 1))
	}
	if passed := decide(Snapshot{Barrier: firstBarrier(), Since: noon, Others: others}); len(passed.Message) > 512 || passed.Phase != steps.Successful {
		t.Errorf("%d bytes: %q", len(passed.Message), passed.Message)
	}
}

func TestWhatIsKeptOfARolloutIsBounded(t *testing.T) {
	ro := canary("b", 1, aborted(1), invalid(1))
	ro.Status.Message, ro.Status.Conditions[0].Message = strings.Repeat("é ", 1<<15), strings.Repeat("é", 1<<15)
	ro.Spec.Strategy.Canary.Steps = append(ro.Spec.Strategy.Canary.Steps, check(`{"barrier": "`+strings.Repeat("x", 1<<15)+`"}`))
	r := read(t, ro)
	text, err := json.Marshal(r)
	if err != nil || len(text) > 1500 {
		t.Errorf("%d bytes (%v): %s", len(text), err, strconv.Quote(string(text[:200])))
	}
}
