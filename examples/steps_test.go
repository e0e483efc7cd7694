package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/lint"
)

// registered is the one registration that all samples of steps need. No host is allowed but
// those of the presets.
const registered = `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: argo-rollouts, name: argo-rollouts-config}
data:
  stepPlugins: |
    - name: kedify/step
      location: https://example.com/rollouts-plugin-step-linux-amd64
      sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
      args: [--secrets-namespace=argo-rollouts, --allow-resource=workflows.argoproj.io]
`

// stepFiles are the samples of steps.
func stepFiles(t *testing.T) []lint.File {
	t.Helper()
	names, err := filepath.Glob("steps/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	var files []lint.File
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, lint.File{Name: name, Text: text})
	}
	return files
}

// Every Rollout of the samples of steps is one that the plugin takes with the sample's preset.
func TestStepsCanBeRead(t *testing.T) {
	files := append(stepFiles(t), lint.File{Name: "argo-rollouts-config", Text: []byte(registered)})
	report := lint.Files(files, kinds.All)
	for _, finding := range append(report.Findings, report.Unchecked...) {
		t.Error(finding)
	}
	if want := "plugin steps: 23 (23 read with their registration), registrations: 1, presets: 20"; !strings.Contains(report.Summary(), want) {
		t.Errorf("%s, want %q", report.Summary(), want)
	}
}

// The presets that only tell something hold a canary for a minute at most, and never abort it.
func TestWhatOnlyTellsStopsNoCanary(t *testing.T) {
	// Of the presets that wait for nothing, this one alone does work that the canary needs.
	const works = "warm-up"
	tell := 0
	for _, file := range stepFiles(t) {
		for _, document := range strings.Split(string(file.Text), "\n---\n") {
			var object corev1.ConfigMap
			if err := yaml.Unmarshal([]byte(document), &object); err != nil || object.Kind != "ConfigMap" {
				continue // a Rollout, which TestStepsCanBeRead reads
			}
			var preset struct {
				Defaults struct {
					Timeout, FailurePolicy string
					HTTP                   *struct{ Poll any }
				}
			}
			if err := yaml.Unmarshal([]byte(object.Data[steps.PresetKey]), &preset); err != nil {
				t.Fatalf("%s: %s: %v", file.Name, object.Name, err)
			}
			if d := preset.Defaults; d.HTTP != nil && d.HTTP.Poll == nil && object.Name != works {
				tell++
				if timeout, err := time.ParseDuration(d.Timeout); err != nil || timeout != time.Minute || d.FailurePolicy != "Ignore" {
					t.Errorf("%s: preset %s has timeout %q and failurePolicy %q, want 1m and Ignore", file.Name, object.Name, d.Timeout, d.FailurePolicy)
				}
			}
		}
	}
	if want := 10; tell != want {
		t.Errorf("%d presets tell something, want %d", tell, want)
	}
}
