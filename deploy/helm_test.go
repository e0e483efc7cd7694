package deploy_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
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
