package kedify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// rollout returns a Rollout demo/app that names the HTTPScaledObject app.
func rollout(edits ...func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
	ro := &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app"},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			StableService:  "app-stable",
			CanaryService:  "app-canary",
			TrafficRouting: &v1alpha1.RolloutTrafficRouting{},
		}}},
	}
	configured(`{"httpScaledObjectName":"app"}`)(ro)
	for _, edit := range edits {
		edit(ro)
	}
	return ro
}

func configured(config string) func(*v1alpha1.Rollout) {
	return canary(func(c *v1alpha1.CanaryStrategy) {
		c.TrafficRouting.Plugins = map[string]json.RawMessage{kedify.PluginName: json.RawMessage(config)}
	})
}

func canary(edit func(*v1alpha1.CanaryStrategy)) func(*v1alpha1.Rollout) {
	return func(ro *v1alpha1.Rollout) { edit(ro.Spec.Strategy.Canary) }
}

func maxWeight(weight int32) func(*v1alpha1.Rollout) {
	return canary(func(c *v1alpha1.CanaryStrategy) { c.TrafficRouting.MaxTrafficWeight = &weight })
}

func pingPong(stable v1alpha1.PingPongType) func(*v1alpha1.Rollout) {
	return func(ro *v1alpha1.Rollout) {
		c := ro.Spec.Strategy.Canary
		c.StableService, c.CanaryService = "", ""
		c.PingPong = &v1alpha1.PingPongSpec{PingService: "app-ping", PongService: "app-pong"}
		ro.Status.Canary.StablePingPong = stable
	}
}

func TestDesiredSplit(t *testing.T) {
	type destinations = []v1alpha1.WeightDestination
	split := func(parts ...any) []weightedbackends.Backend {
		var backends []weightedbackends.Backend
		for i := 0; i < len(parts); i += 2 {
			backends = append(backends, weightedbackends.Backend{Service: parts[i].(string), Weight: int32(parts[i+1].(int))})
		}
		return backends
	}
	tests := map[string]struct {
		rollout    *v1alpha1.Rollout
		weight     int32
		additional destinations
		want       []weightedbackends.Backend
		wantErr    string
	}{
		"first step":            {rollout: rollout(), weight: 20, want: split("app-stable", 80, "app-canary", 20)},
		"weight 0":              {rollout: rollout(), weight: 0, want: nil},
		"full weight":           {rollout: rollout(), weight: 100, want: split("app-stable", 0, "app-canary", 100)},
		"maxTrafficWeight":      {rollout: rollout(maxWeight(1000)), weight: 5, want: split("app-stable", 995, "app-canary", 5)},
		"maxTrafficWeight full": {rollout: rollout(maxWeight(10)), weight: 10, want: split("app-stable", 0, "app-canary", 10)},
		"experiment": {
			rollout: rollout(), weight: 20, additional: destinations{{ServiceName: "app-exp", Weight: 5}},
			want: split("app-stable", 75, "app-canary", 20, "app-exp", 5),
		},
		"experiments at weight 0": {
			rollout: rollout(), weight: 0, additional: destinations{{ServiceName: "app-a", Weight: 5}, {ServiceName: "app-b", Weight: 10}},
			want: split("app-stable", 85, "app-canary", 0, "app-a", 5, "app-b", 10),
		},
		"experiments fill all":             {rollout: rollout(), weight: 60, additional: destinations{{ServiceName: "app-a", Weight: 40}}, want: split("app-stable", 0, "app-canary", 60, "app-a", 40)},
		"pingPong, nothing promoted yet":   {rollout: rollout(pingPong("")), weight: 20, want: split("app-pong", 80, "app-ping", 20)},
		"pingPong, ping is stable":         {rollout: rollout(pingPong(v1alpha1.PPPing)), weight: 20, want: split("app-ping", 80, "app-pong", 20)},
		"pingPong at weight 0 is named":    {rollout: rollout(pingPong(v1alpha1.PPPing)), weight: 0, want: split("app-ping", 100, "app-pong", 0)},
		"pingPong, pong at weight 0":       {rollout: rollout(pingPong(v1alpha1.PPPong)), weight: 0, want: split("app-pong", 100, "app-ping", 0)},
		"no canary strategy":               {rollout: rollout(func(ro *v1alpha1.Rollout) { ro.Spec.Strategy.Canary = nil }), weight: 20, wantErr: "spec.strategy.canary is missing"},
		"weight below 0":                   {rollout: rollout(), weight: -1, wantErr: "the canary weight -1 is outside 0..100"},
		"weight past max":                  {rollout: rollout(), weight: 101, wantErr: "the canary weight 101 is outside 0..100"},
		"weight past maxTrafficWeight":     {rollout: rollout(maxWeight(10)), weight: 20, wantErr: "the canary weight 20 is outside 0..10"},
		"max below 1":                      {rollout: rollout(maxWeight(0)), weight: 0, wantErr: "maxTrafficWeight is 0"},
		"sum past max":                     {rollout: rollout(), weight: 60, additional: destinations{{ServiceName: "a", Weight: 30}, {ServiceName: "b", Weight: 11}}, wantErr: `add up past 100 at Service "b"`},
		"sum that would overflow":          {rollout: rollout(), weight: 60, additional: destinations{{ServiceName: "a", Weight: 2147483647}}, wantErr: "is outside 0..100"},
		"negative experiment":              {rollout: rollout(), weight: 60, additional: destinations{{ServiceName: "a", Weight: -1}}, wantErr: "is outside 0..100"},
		"experiment without Service":       {rollout: rollout(), weight: 60, additional: destinations{{PodTemplateHash: "abc", Weight: 1}}, wantErr: `(pod template hash "abc") has no Service`},
		"experiment on the canary Service": {rollout: rollout(), weight: 60, additional: destinations{{ServiceName: "app-canary", Weight: 1}}, wantErr: `Service "app-canary" would be in the split twice`},
		"no stableService":                 {rollout: rollout(canary(func(c *v1alpha1.CanaryStrategy) { c.StableService = "" })), weight: 0, wantErr: "spec.strategy.canary.stableService is missing"},
		"no canaryService":                 {rollout: rollout(canary(func(c *v1alpha1.CanaryStrategy) { c.CanaryService = "" })), weight: 20, wantErr: "spec.strategy.canary.canaryService is missing"},
		"equal Services":                   {rollout: rollout(canary(func(c *v1alpha1.CanaryStrategy) { c.CanaryService = c.StableService })), weight: 20, wantErr: `are both "app-stable"`},
		"pingPong without pong":            {rollout: rollout(pingPong(""), canary(func(c *v1alpha1.CanaryStrategy) { c.PingPong.PongService = "" })), weight: 20, wantErr: "pingPong.pongService is missing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := kedify.DesiredSplit(tc.rollout, tc.weight, tc.additional)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("split (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzDesiredSplit: an accepted split adds up to the maximum, and its annotation can be
// read back.
func FuzzDesiredSplit(f *testing.F) {
	f.Add(int32(20), int32(100), int32(5), "app-exp", false)
	f.Add(int32(0), int32(100), int32(0), "", true)
	f.Fuzz(func(t *testing.T, weight, most, extra int32, service string, pp bool) {
		ro := rollout(maxWeight(most))
		if pp {
			pingPong(v1alpha1.PPPing)(ro)
		}
		var additional []v1alpha1.WeightDestination
		if extra != 0 {
			additional = append(additional, v1alpha1.WeightDestination{ServiceName: service, Weight: extra})
		}
		split, err := kedify.DesiredSplit(ro, weight, additional)
		if err != nil || split == nil {
			return
		}
		total := int64(0)
		for _, b := range split {
			if b.Weight < 0 {
				t.Errorf("negative weight in %v", split)
			}
			total += int64(b.Weight)
		}
		if total != int64(most) {
			t.Errorf("%v adds up to %d, want %d", split, total, most)
		}
		if len(validation.IsDNS1035Label(service)) > 0 {
			return // the API server takes no such Service name
		}
		read, err := weightedbackends.Parse(weightedbackends.Format(split))
		if diff := cmp.Diff(split, read); err != nil || diff != "" {
			t.Errorf("read back: %v (-want +got):\n%s", err, diff)
		}
	})
}
