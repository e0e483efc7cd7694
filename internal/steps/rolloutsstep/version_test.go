package rolloutsstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
)

// runs gives a Rollout containers: app v2 is container app with image example.com/app:v2.
func runs(images map[string]string) func(*v1alpha1.Rollout) {
	return func(ro *v1alpha1.Rollout) {
		ro.Spec.Template.Spec.Containers = nil
		for container, image := range images {
			ro.Spec.Template.Spec.Containers = append(ro.Spec.Template.Spec.Containers, corev1.Container{Name: container, Image: image})
		}
	}
}

func runsApp(tag string) func(*v1alpha1.Rollout) {
	return runs(map[string]string{"app": "registry.example.com/app:" + tag})
}

func TestAVersionIsMadeOfTagsAndDigests(t *testing.T) {
	const digest = "sha256:6d1ef012b5674ad8a127ecfa9b5e6f5178d171b90ee462846974177fd9bdd39f"
	tests := []struct{ image, tag string }{
		{"app", "latest"},
		{"app:v2", "v2"},
		{"eu.example.com/shop/app:v2", "v2"},
		{"eu.example.com:5000/shop/app", "latest"},
		{"eu.example.com:5000/shop/app:v2", "v2"},
		{"localhost:5000/app", "latest"},
		{"app@" + digest, digest},
		{"us.example.com:5000/other/app:v2@" + digest, digest},
	}
	for _, test := range tests {
		got, err := versionRule{}.of(t.Context(), cel.NewBudget(), versioned{images: map[string]string{"app": test.image}})
		if err != nil || got != "app "+test.tag {
			t.Errorf("%s: %q (%v), want app %s", test.image, got, err, test.tag)
		}
	}
	got, err := versionRule{}.of(t.Context(), cel.NewBudget(), versioned{images: map[string]string{"proxy": "envoy:v1.3", "app": "app:v2"}})
	if err != nil || got != "app v2, proxy v1.3" {
		t.Errorf("two containers: %q (%v)", got, err)
	}
	if got, err := (versionRule{}).of(t.Context(), cel.NewBudget(), versioned{}); err == nil {
		t.Errorf("without containers: %q", got)
	}
}

func TestAVersionByAnExpression(t *testing.T) {
	from := versioned{
		name:   name{"demo", "checkout"},
		labels: map[string]string{"release": "r7", "empty": ""}, annotations: map[string]string{"example.com/build": "5"},
		images: map[string]string{"app": "example.com/app:v2-eu"},
	}
	tests := []struct{ expression, want, problem string }{
		{`rollout.labels["release"]`, "r7", ""},
		{`int(rollout.annotations["example.com/build"]) + 1`, "6", ""},
		{`images.new["app"].split(":")[1].split("-")[0]`, "v2", ""},
		{`rollout.namespace + "/" + rollout.name`, "demo/checkout", ""},
		{`rollout.labels["none"]`, "", `rollout.labels["none"]`},
		{`rollout.labels["empty"]`, "", "its value is empty"},
	}
	for _, test := range tests {
		rule, err := readVersionRule(test.expression)
		if err != nil {
			t.Errorf("%s: %v", test.expression, err)
			continue
		}
		got, err := rule.of(t.Context(), cel.NewBudget(), from)
		if got != test.want || test.problem == "" && err != nil || test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
			t.Errorf("%s: %q (%v), want %q (%s)", test.expression, got, err, test.want, test.problem)
		}
	}
}

func TestVersionsThatAreRefused(t *testing.T) {
	for expression, problem := range map[string]string{
		`rollout.labels["a"`:        "version: ",
		`rollout.labels`:            "version: rollout.labels: want a text, a number or a boolean",
		`string(revision)`:          "version: revision differs from cluster to cluster, or is not known of another one: want an expression over images.new, rollout.annotations, rollout.labels, rollout.name, rollout.namespace",
		`images.old["app"]`:         "version: images.old differs",
		`hash.new`:                  "version: hash.new differs",
		`rollout.uid`:               "version: rollout.uid differs",
		`steps.e2e.outputs.version`: "version: steps differs",
		`rolout.name`:               "did you mean rollout.name?",
	} {
		if _, err := readVersionRule(expression); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", expression, err, problem)
		}
	}
}

func TestAMessageNamesWhatDiffersOfAVersion(t *testing.T) {
	tests := []struct{ version, other, want string }{
		{"app v1, proxy v3", "app v2, proxy v3", "app v1"},
		{"app v1", "app v1, proxy v3", "no more"},
		{"r7", "r8", "r7"},
	}
	for _, test := range tests {
		if got := differing(test.version, test.other); got != test.want {
			t.Errorf("%q from %q: %q, want %q", test.version, test.other, got, test.want)
		}
	}
}

// What is kept of a Rollout of another cluster is bounded, whatever stands there.
func TestWhatAVersionIsMadeOfIsBounded(t *testing.T) {
	many := map[string]string{}
	for i := range 40 {
		many[fmt.Sprintf("c%d", i)] = "app:v2"
	}
	for problem, images := range map[string]map[string]string{
		"it has 40 containers: want 32 at most":                       many,
		"the image of container app has 2000 bytes: want 512 at most": {"app": strings.Repeat("x", 2000)},
	} {
		r := inRegion(t, canary("b", 1, runs(images))).Content
		if r.Unreadable != problem || len(r.Images) > 0 {
			t.Errorf("%q with %d images, want %q", r.Unreadable, len(r.Images), problem)
		}
	}
	ro := canary("b", 1, runsApp("v2"))
	ro.Annotations = map[string]string{"short": "1", "kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 1<<16)}
	for i := range 1000 {
		ro.Annotations[fmt.Sprintf("z%03d", i)] = "x"
	}
	r := inRegion(t, ro).Content
	text, err := json.Marshal(r)
	if err != nil || len(text) > 2<<10 || r.Annotations["short"] != "1" || r.Images["app"] == "" {
		t.Errorf("%d bytes (%v): %v", len(text), err, r.Annotations)
	}
}

// The controller sends the template of a workloadRef along; the API server does not have it,
// and another cluster's is that of the ReplicaSet.
func TestTheVersionWithAWorkloadRef(t *testing.T) {
	ro := canary("b", 1, runsApp("v2"), func(ro *v1alpha1.Rollout) {
		ro.Spec.WorkloadRef = &v1alpha1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "b"}
		ro.Spec.TemplateResolvedFromRef = true
	})
	from, err := versionedSelf(ro)
	if err != nil || from.images["app"] != "registry.example.com/app:v2" {
		t.Errorf("its own images: %v (%v)", from.images, err)
	}
	there := inRegion(t, ro)
	if there.Content.ReplicaSet != "b-v2" || there.Content.Images != nil {
		t.Errorf("ReplicaSet %q, images %v", there.Content.ReplicaSet, there.Content.Images)
	}
	view := regionView{images: func(_ context.Context, namespace, name string) (map[string]string, error) {
		if namespace == "demo" && name == "b-v2" {
			return imagesByContainer(&ro.Spec.Template)
		}
		return nil, errors.New("there is no such ReplicaSet")
	}}
	got, err := view.versionedOf(t.Context(), there)
	if err != nil || got.images["app"] != "registry.example.com/app:v2" {
		t.Errorf("%v (%v)", got.images, err)
	}
	there.Content.ReplicaSet = "b-v3"
	if got, err := view.versionedOf(t.Context(), there); err == nil || err.Error() != "there is no such ReplicaSet" {
		t.Errorf("%v (%v)", got, err)
	}
}
