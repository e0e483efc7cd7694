package gatewayapi

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestRolloutOf(t *testing.T) {
	most := int32(1000)
	ro := &v1alpha1.Rollout{}
	ro.Namespace, ro.Name = "demo", "app"
	ro.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{
		PingPong: &v1alpha1.PingPongSpec{PingService: "ping", PongService: "pong"},
		TrafficRouting: &v1alpha1.RolloutTrafficRouting{
			MaxTrafficWeight: &most, ManagedRoutes: []v1alpha1.MangedRoutes{{Name: "b"}, {Name: "a"}},
		},
	}
	ro.Status.Canary.StablePingPong = v1alpha1.PPPing
	want := Rollout{
		NamespacedName: types.NamespacedName{Namespace: "demo", Name: "app"},
		Stable:         "ping", Canary: "pong", PingPong: true, Max: 1000,
		ManagedRoutes: []string{"b", "a"}, Rules: []string{"r"},
	}
	if diff := cmp.Diff(want, RolloutOf(ro, []string{"r"})); diff != "" {
		t.Errorf("RolloutOf (-want +got):\n%s", diff)
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
	for value, want := range map[string][]types.NamespacedName{
		"":                                  nil,
		"?":                                 nil,
		"null":                              nil,
		`{"b/x": {}, "a/y": 1, "no": {}}`:   {{Namespace: "a", Name: "y"}, {Namespace: "b", Name: "x"}},
		`{"/x": {}, "a/": {}, "a/b": null}`: {{Namespace: "a", Name: "b"}},
	} {
		setMetadata(route, "annotations", Annotation, &value)
		if diff := cmp.Diff(want, RolloutsOn(route)); diff != "" {
			t.Errorf("RolloutsOn %s (-want +got):\n%s", value, diff)
		}
	}
}
