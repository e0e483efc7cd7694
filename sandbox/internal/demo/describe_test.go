package demo

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// guideSteps are those of the guide's sample, with a step of the plugin behind them.
func guideSteps() []v1alpha1.CanaryStep {
	weight := func(w int32) v1alpha1.CanaryStep { return v1alpha1.CanaryStep{SetWeight: &w} }
	duration := intstr.FromString("30s")
	return []v1alpha1.CanaryStep{
		weight(20), {Pause: &v1alpha1.RolloutPause{}},
		weight(50), {Pause: &v1alpha1.RolloutPause{Duration: &duration}},
		{Plugin: &v1alpha1.PluginStep{Name: "kedify/step", Config: []byte(`{"use": "chat"}`)}},
	}
}

// at is a Rollout at a step of guideSteps.
func at(step int32, phase v1alpha1.RolloutPhase, change ...func(*v1alpha1.RolloutStatus)) *v1alpha1.Rollout {
	ro := &v1alpha1.Rollout{}
	ro.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{Steps: guideSteps()}
	ro.Status = v1alpha1.RolloutStatus{Phase: phase, CurrentStepIndex: &step, Replicas: 3, UpdatedReplicas: 1, ReadyReplicas: 2}
	for _, c := range change {
		c(&ro.Status)
	}
	return ro
}

func weighs(weight int32, verified bool) func(*v1alpha1.RolloutStatus) {
	return func(s *v1alpha1.RolloutStatus) {
		s.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: weight}, Verified: &verified}
	}
}

func says(index int32, phase v1alpha1.StepPluginPhase, message string) func(*v1alpha1.RolloutStatus) {
	return func(s *v1alpha1.RolloutStatus) {
		s.Canary.StepPluginStatuses = append(s.Canary.StepPluginStatuses, v1alpha1.StepPluginStatus{
			Index: index, Operation: v1alpha1.StepPluginOperationRun, Phase: phase, Message: message,
		})
	}
}

func aborted(s *v1alpha1.RolloutStatus) { s.Abort = true }

func TestChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		before, now *v1alpha1.Rollout
		want        string
	}{
		"nothing": {at(1, "Paused"), at(1, "Paused"), ""},
		"the first look": {&v1alpha1.Rollout{}, at(5, "Healthy", weighs(0, true)),
			"all steps done\nHealthy\n3 pods, 1 of them new, 2 ready\nweight 0, verified\n"},
		"the first step": {at(5, "Healthy"), at(0, "Progressing", func(s *v1alpha1.RolloutStatus) { s.Message = "more replicas" }),
			"step 1/5: setWeight 20\nProgressing: more replicas\n"},
		"a weight": {at(0, "Progressing", weighs(0, true)), at(0, "Progressing", weighs(20, false)), "weight 20, not verified yet\n"},
		"verified": {at(0, "Progressing", weighs(20, false)), at(0, "Progressing", weighs(20, true)), "weight 20, verified\n"},
		"an abort": {at(3, "Paused"), at(0, "Degraded", aborted), "aborted\nDegraded\n"},
		"after it": {at(1, "Degraded", aborted), at(0, "Degraded", aborted), ""},
		"a step says": {at(4, "Progressing"), at(4, "Progressing", says(4, v1alpha1.StepPluginPhaseRunning, "chat: sent")),
			"chat: sent\n"},
		"a step says it again": {at(4, "Progressing", says(4, v1alpha1.StepPluginPhaseRunning, "chat: sent")),
			at(4, "Progressing", says(4, v1alpha1.StepPluginPhaseRunning, "chat: sent")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, texts(changes(tt.before, tt.now))); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRolloutPanel(t *testing.T) {
	want := `  Rollout        Paused
                 ✓ 20 %   ✓ pause   ✓ 50 %   ▶ pause 30s   · chat
                 3 pods, 1 of them new, 2 ready
  canary weight   50 ████████████████████░░░░░░░░░░░░░░░░░░░░ verified
`
	if diff := cmp.Diff(want, texts(rolloutPanel("Rollout", at(3, "Paused", weighs(50, true))))); diff != "" {
		t.Errorf("panel (-want +got):\n%s", diff)
	}
	got := texts(rolloutPanel("checkout in eu", at(0, "Degraded", aborted)))
	if !strings.Contains(got, "- 20 %   - pause") || strings.Contains(got, "weight") {
		t.Errorf("panel of an aborted Rollout without a router:\n%s", got)
	}
}

func TestDescribeAnalysis(t *testing.T) {
	run := &v1alpha1.AnalysisRun{}
	if text, _ := describeAnalysis(run); text != "" {
		t.Errorf("before the first measurement: %q", text)
	}
	run.Status = v1alpha1.AnalysisRunStatus{Phase: v1alpha1.AnalysisPhaseFailed, Message: "too many", MetricResults: []v1alpha1.MetricResult{{
		Successful: 1, Failed: 1, Measurements: []v1alpha1.Measurement{{Value: "1"}, {Value: "9"}},
	}}}
	if text, style := describeAnalysis(run); text != "Failed after measurement 2: 9: too many" || style != Bad {
		t.Errorf("%q in style %q", text, style)
	}
}

// What is read of an object is what the stories expect of it.
func TestSplits(t *testing.T) {
	for name, tt := range map[string]struct {
		read func(*unstructured.Unstructured) string
		text string
		want string
	}{
		"no annotation": {annotated, `{}`, onHTTPScaledObject.split(0, false)},
		"an annotation": {annotated, `
metadata:
  annotations:
    http.kedify.io/weighted-backends: |
      - service: rollouts-demo-stable
        weight: 80
      - service: rollouts-demo-canary
        weight: 20
`, onHTTPScaledObject.split(20, false)},
		"a route": {routed, `
spec:
  rules:
    - matches: [{path: {value: /my-app}}]
      backendRefs: [{name: my-app-stable, weight: 95}, {name: my-app-canary, weight: 5}]
`, gateway().split(5, false)},
		"a header route": {routed, `
spec:
  rules:
    - backendRefs: [{name: my-app-stable, weight: 75}, {name: my-app-canary, weight: 25}]
    - matches: [{path: {value: /my-app}, headers: [{name: X-Beta, value: "yes"}]}]
      backendRefs: [{name: my-app-canary, weight: 1}]
`, gateway().split(25, true)},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(tt.text), &object.Object); err != nil {
				t.Fatal(err)
			}
			if got := tt.read(object); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
