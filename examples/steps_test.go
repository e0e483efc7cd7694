package examples_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/lint"
)

// registration is how a sample says that its plugin is registered.
var registration = regexp.MustCompile(`(?m)^#   - name: (\S+)\n#     args: (\[.*\])$`)

// Every Rollout of the samples of steps, with its preset, is one that the plugin takes when
// it is registered as the sample says.
func TestStepsCanBeRead(t *testing.T) {
	names, err := filepath.Glob("steps/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	list := ""
	var files []lint.File
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		match := registration.FindStringSubmatch(string(text))
		if match == nil {
			t.Fatalf("%s does not say how its plugin is registered", name)
		}
		list += fmt.Sprintf("    - name: %s\n      location: https://example.com/rollouts-plugin-step-linux-amd64\n      sha256: %s\n      args: %s\n", match[1], strings.Repeat("a", 64), match[2])
		files = append(files, lint.File{Name: name, Text: text})
	}
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: argo-rollouts, name: argo-rollouts-config}\ndata:\n  stepPlugins: |\n" + list
	report := lint.Files(append(files, lint.File{Name: "argo-rollouts-config", Text: []byte(config)}), kinds.All)
	for _, finding := range append(report.Findings, report.Unchecked...) {
		t.Error(finding)
	}
	if want := "plugin steps: 5 (5 read with their registration)"; !strings.Contains(report.Summary(), want) {
		t.Errorf("%s, want %q", report.Summary(), want)
	}
}
