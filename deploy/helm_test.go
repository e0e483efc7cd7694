package deploy_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The Helm values set only keys that the argo-rollouts chart documents, each of
// the kind it documents.
func TestHelmValuesAreTheCharts(t *testing.T) {
	var chart struct {
		Values   map[string]any    `json:"values"`
		Rendered map[string]string `json:"rendered"`
	}
	read(t, "testdata/argo-rollouts-chart.yaml", &chart)
	dir := madeRelease(t)
	for _, plugin := range plugins {
		var values map[string]any
		read(t, filepath.Join(dir, "argo-rollouts-values-"+plugin.infix+"linux-amd64.yaml"), &values)
		for _, problem := range undocumented("", values, chart.Values) {
			t.Errorf("%s: %s", plugin.program, problem)
		}
	}
	for _, key := range []string{"providerRBAC.additionalRules", "controller.trafficRouterPlugins"} {
		if chart.Rendered[key] == "" {
			t.Errorf("it is not noted what the chart makes of %s", key)
		}
	}

	// The check sees what is wrong.
	broken := map[string]any{
		"controler":    map[string]any{},
		"providerRBAC": map[string]any{"additionalRules": map[string]any{}, "rules": []any{}},
	}
	want := []string{
		"the chart has no key controler",
		"providerRBAC.additionalRules is a map, the chart's is a list",
		"the chart has no key providerRBAC.rules",
	}
	equal(t, "problems of broken values", want, undocumented("", broken, chart.Values))
}

// The values with which docs/steps-admin.md installs the step plugin from its image have keys
// of the chart alone, and the init container of deploy/step.
func TestHelmValuesOfTheStepsPage(t *testing.T) {
	shown := regexp.MustCompile("(?s)\n```yaml {fragment}\n(controller:\n.*?\n)```\n").FindStringSubmatch(readText(t, "../docs/steps-admin.md"))
	if shown == nil {
		t.Fatal("docs/steps-admin.md shows no values of the chart")
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(shown[1]), &values); err != nil {
		t.Fatal(err)
	}
	var chart struct {
		Values   map[string]any    `json:"values"`
		Rendered map[string]string `json:"rendered"`
	}
	read(t, "testdata/argo-rollouts-chart.yaml", &chart)
	equal(t, "problems", nil, undocumented("", values, chart.Values))
	for _, key := range []string{"controller.initContainers", "controller.stepPlugins"} {
		if chart.Rendered[key] == "" {
			t.Errorf("it is not noted what the chart makes of %s", key)
		}
	}
	var typed struct {
		Controller struct {
			InitContainers []corev1.Container `json:"initContainers"`
			StepPlugins    []types.PluginItem `json:"stepPlugins"`
		} `json:"controller"`
	}
	if err := yaml.UnmarshalStrict([]byte(shown[1]), &typed); err != nil {
		t.Fatal(err)
	}
	var patch appsv1.Deployment
	read(t, "step/deployment-patch.yaml", &patch)
	want := patch.Spec.Template.Spec.InitContainers
	want[0].Image = stepImage + ":vX.Y.Z"
	equal(t, "init containers", want, typed.Controller.InitContainers)
	if len(typed.Controller.StepPlugins) != 1 {
		t.Errorf("%d step plugins, want 1", len(typed.Controller.StepPlugins))
	}
}

// undocumented lists the keys of values that documented does not have, or has
// as another kind, in the order of their names.
func undocumented(prefix string, values, documented map[string]any) []string {
	var problems []string
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		switch known := documented[key].(type) {
		case nil:
			problems = append(problems, "the chart has no key "+prefix+key)
		case string:
			if kind := kindOf(values[key]); kind != known {
				problems = append(problems, fmt.Sprintf("%s%s is a %s, the chart's is a %s", prefix, key, kind, known))
			}
		case map[string]any:
			below, ok := values[key].(map[string]any)
			if !ok {
				problems = append(problems, fmt.Sprintf("%s%s is a %s, the chart's is a map", prefix, key, kindOf(values[key])))
			}
			problems = append(problems, undocumented(prefix+key+".", below, known)...)
		}
	}
	return problems
}

func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "map"
	case []any:
		return "list"
	case string:
		return "string"
	case bool:
		return "bool"
	default:
		return "number"
	}
}
