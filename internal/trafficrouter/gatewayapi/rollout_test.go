package gatewayapi

import (
	"encoding/json"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestRolloutOf(t *testing.T) {
	most, index := int32(1000), int32(1)
	steps := []v1alpha1.CanaryStep{{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "a"}}, {Pause: &v1alpha1.RolloutPause{}}}
	ro := &v1alpha1.Rollout{}
	ro.Namespace, ro.Name = "demo", "app"
	ro.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{
		PingPong: &v1alpha1.PingPongSpec{PingService: "ping", PongService: "pong"},
		TrafficRouting: &v1alpha1.RolloutTrafficRouting{
			MaxTrafficWeight: &most, ManagedRoutes: []v1alpha1.MangedRoutes{{Name: "b"}, {Name: "a"}},
			Plugins: map[string]json.RawMessage{"x/b": nil, "x/a": nil},
		},
		Steps: steps,
	}
	ro.Status.Canary.StablePingPong = v1alpha1.PPPing
	ro.Status.CurrentStepIndex = &index
	want := Rollout{
		NamespacedName: types.NamespacedName{Namespace: "demo", Name: "app"},
		Stable:         "ping", Canary: "pong", PingPong: true, Max: 1000,
		ManagedRoutes: []string{"b", "a"}, Rules: []string{"r"},
		Registrations: []string{"x/a", "x/b"}, Steps: steps, Passed: steps[:1],
	}
	if diff := cmp.Diff(want, RolloutOf(ro, []string{"r"})); diff != "" {
		t.Errorf("RolloutOf (-want +got):\n%s", diff)
	}
	for index, passed := range map[int32]int{-1: 0, 0: 0, 2: 2, 7: 2} {
		ro.Status.CurrentStepIndex = &index
		if got := RolloutOf(ro, nil).Passed; len(got) != passed {
			t.Errorf("at step %d, %d steps are passed, want %d", index, len(got), passed)
		}
	}
	weights, err := WeightsOf(ro, 300, []v1alpha1.WeightDestination{{ServiceName: "exp", Weight: 50}})
	if diff := cmp.Diff(Weights{Stable: 650, Canary: 300, Experiments: []ExperimentWeight{{"exp", 50}}}, weights); err != nil || diff != "" {
		t.Errorf("WeightsOf: %v (-want +got):\n%s", err, diff)
	}
	if weights, err := WeightsOf(ro, 1001, nil); err == nil || !weights.AtRest() {
		t.Errorf("WeightsOf(1001) is %v, %v, want an error", weights, err)
	}
	if r := RolloutOf(&v1alpha1.Rollout{}, nil); r.Stable != "" || r.Max != 100 || r.max() != 100 {
		t.Errorf("RolloutOf an empty Rollout is %+v", r)
	}
}

func TestRolloutsOn(t *testing.T) {
	route := routeOf(t, parentsRoute("[]", "[]"))
	of := func(namespace, name, plugin string) Owner {
		return Owner{Rollout: types.NamespacedName{Namespace: namespace, Name: name}, Plugin: plugin}
	}
	for value, want := range map[string][]Owner{
		"":                                  nil,
		"?":                                 nil,
		"null":                              nil,
		`{"b/x": {}, "a/y": 1, "no": {}}`:   {of("a", "y", DefaultPluginName), of("b", "x", DefaultPluginName)},
		`{"/x": {}, "a/": {}, "a/b": null}`: {of("a", "b", DefaultPluginName)},
		// Two registrations; the first is as an older version has written it.
		`{"a/b": {}, "a/b x/z": {}}`: {of("a", "b", DefaultPluginName), of("a", "b", "x/z")},
		// A manifest that was copied from another route, and one of this route.
		`{"a/b": {"route": "demo/other"}, "a/c": {"route": "demo/app"}}`: {of("a", "c", DefaultPluginName)},
	} {
		setMetadata(route, "annotations", Annotation, &value)
		if diff := cmp.Diff(want, RolloutsOn(route)); diff != "" {
			t.Errorf("RolloutsOn %s (-want +got):\n%s", value, diff)
		}
	}
}
