package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
      args: [--secrets-namespace=argo-rollouts]
`

// Every Rollout of the samples of steps is one that the plugin takes with the sample's preset.
func TestStepsCanBeRead(t *testing.T) {
	names, err := filepath.Glob("steps/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	files := []lint.File{{Name: "argo-rollouts-config", Text: []byte(registered)}}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, lint.File{Name: name, Text: text})
	}
	report := lint.Files(files, kinds.All)
	for _, finding := range append(report.Findings, report.Unchecked...) {
		t.Error(finding)
	}
	if want := "plugin steps: 6 (6 read with their registration), registrations: 1, presets: 5"; !strings.Contains(report.Summary(), want) {
		t.Errorf("%s, want %q", report.Summary(), want)
	}
}
