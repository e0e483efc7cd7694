package deploy_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
)

const stepsPage = "docs/how-to/step-admin.md"

// The Helm values of a release, and those with which a page installs the step
// plugin from its image, set only keys that the argo-rollouts chart documents, each of the
// kind it documents.
func TestHelmValuesAreTheCharts(t *testing.T) {
	var chart struct {
		Values   map[string]any    `json:"values"`
		Rendered map[string]string `json:"rendered"` // what the chart makes of a key
	}
	read(t, "testdata/argo-rollouts-chart.yaml", &chart)
	check := func(of, text string) {
		t.Helper()
		var values map[string]any
		readAny(t, []byte(text), &values)
		equal(t, "problems of "+of, nil, undocumented("", values, chart.Values, chart.Rendered))
	}
	dir := madeRelease(t)
	for _, plugin := range plugins {
		check(plugin.program, readText(t, filepath.Join(dir, "argo-rollouts-values-"+plugin.infix+"linux-amd64.yaml")))
	}
	check(stepsPage, docstest.Named(t, stepsPage, "values"))
	broken := map[string]any{"controler": map[string]any{}, "providerRBAC": map[string]any{"additionalRules": map[string]any{}}}
	equal(t, "problems of broken values", []string{"controler is not the chart's", "providerRBAC.additionalRules is a map[string]interface {}, the chart's is a list"},
		undocumented("", broken, chart.Values, chart.Rendered))
}

// undocumented lists what is wrong with values: keys that the chart does not document, or has
// as another kind, and those of which it is not noted what the chart makes.
func undocumented(prefix string, values, documented map[string]any, rendered map[string]string) []string {
	kinds := map[string]string{"[]interface {}": "list", "string": "string", "bool": "bool"}
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch known := documented[key].(type) {
		case string:
			if kind := fmt.Sprintf("%T", values[key]); kinds[kind] != known {
				problems = append(problems, fmt.Sprintf("%s is a %s, the chart's is a %s", prefix+key, kind, known))
			} else if rendered[prefix+key] == "" {
				problems = append(problems, "it is not noted what the chart makes of "+prefix+key)
			}
		case map[string]any:
			below, _ := values[key].(map[string]any)
			problems = append(problems, undocumented(prefix+key+".", below, known, rendered)...)
		default:
			problems = append(problems, prefix+key+" is not the chart's")
		}
	}
	return problems
}

// The values that the page shows have the init container of deploy/step.
func TestStepsPageHasTheInitContainer(t *testing.T) {
	var values struct {
		Controller struct {
			InitContainers []corev1.Container `json:"initContainers"`
			StepPlugins    []types.PluginItem `json:"stepPlugins"`
		} `json:"controller"`
	}
	readAny(t, []byte(docstest.Named(t, stepsPage, "values")), &values)
	var patch appsv1.Deployment
	read(t, "step/deployment-patch.yaml", &patch)
	want := patch.Spec.Template.Spec.InitContainers
	want[0].Image = stepImage + ":vX.Y.Z"
	equal(t, "init containers", want, values.Controller.InitContainers)
	equal(t, "step plugins", 1, len(values.Controller.StepPlugins))
}
