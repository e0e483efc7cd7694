package examples_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	rollouts "github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// The objects of the sample that scales from zero name one another as they have to.
func TestScalingObjectsFitTogether(t *testing.T) {
	var rollout rollouts.Rollout
	read(t, "scaling/rollout.yaml", &rollout)
	var object v1alpha1.HTTPScaledObject
	read(t, "scaling/httpscaledobject.yaml", &object)
	var scaled struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			ScaleTargetRef struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Name       string `json:"name"`
			} `json:"scaleTargetRef"`
			Triggers []struct {
				Type     string            `json:"type"`
				Metadata map[string]string `json:"metadata"`
			} `json:"triggers"`
		} `json:"spec"`
	}
	readLoosely(t, "scaling/scaledobject.yaml", &scaled)

	if len(scaled.Spec.Triggers) != 1 {
		t.Fatalf("the ScaledObject has %d triggers, want 1", len(scaled.Spec.Triggers))
	}
	trigger, target, canary := scaled.Spec.Triggers[0], scaled.Spec.ScaleTargetRef, rollout.Spec.Strategy.Canary
	var router struct {
		HTTPScaledObjectName string `json:"httpScaledObjectName"`
	}
	if err := yaml.UnmarshalStrict(canary.TrafficRouting.Plugins["kedify/http"], &router); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, want, got string }{
		{"HTTPScaledObject that the trigger names", object.Name, trigger.Metadata["httpScaledObject"]},
		{"HTTPScaledObject that the Rollout names", object.Name, router.HTTPScaledObjectName},
		{"type of the trigger, which wakes the Rollout up at once", "external-push", trigger.Type},
		{"API version of the workload of the ScaledObject", rollout.APIVersion, target.APIVersion},
		{"kind of the workload of the ScaledObject", rollout.Kind, target.Kind},
		{"workload of the ScaledObject", rollout.Name, target.Name},
		{"workload of the HTTPScaledObject", rollout.Name, object.Spec.ScaleTargetRef.Name},
		{"Service of the HTTPScaledObject", canary.StableService, object.Spec.ScaleTargetRef.Service},
		{"annotation that keeps a second ScaledObject away", "true", object.Annotations["httpscaledobject.keda.sh/skip-scaledobject-creation"]},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.what, c.got, c.want)
		}
	}
	if rollout.Spec.Replicas != nil {
		t.Errorf("the Rollout has replicas %d: to apply it again would undo what KEDA has set", *rollout.Spec.Replicas)
	}
	if metric := object.Spec.ScalingMetric; metric == nil || metric.RequestRate == nil || metric.RequestRate.TargetValue == nil {
		t.Error("the HTTPScaledObject has no target")
	}

	var services []string
	for _, service := range readAll[corev1.Service](t, "scaling/services.yaml") {
		services = append(services, service.Name)
		for key, value := range service.Spec.Selector {
			if rollout.Spec.Template.Labels[key] != value {
				t.Errorf("Service %s selects %s=%s, which the Rollout's pods do not have", service.Name, key, value)
			}
		}
	}
	if want := []string{canary.StableService, canary.CanaryService}; !slices.Equal(services, want) {
		t.Errorf("there are Services %q, want %q", services, want)
	}
}

// readAll is read for each document of a file.
func readAll[T any](t *testing.T, path string) []T {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var one T
		if err := yaml.UnmarshalStrict(document, &one); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, one)
	}
	return all
}
