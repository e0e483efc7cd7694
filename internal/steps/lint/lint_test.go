package lint

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

var update = flag.Bool("update", false, "write the .golden files anew")

// call is a kind that needs a url.
type call struct{ name string }

func (k call) Name() string { return k.name }

func (k call) Parse(source steps.Source) (steps.Step, error) {
	var config struct {
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers,omitempty"`
		Success string            `json:"success,omitempty"`
	}
	if err := strict.Decode(source.Config, &config); err != nil {
		return nil, err
	}
	if config.URL == "" {
		return nil, errURL
	}
	return noStep{}, nil
}

// noStep is a step that makes no operation here.
type noStep struct{ steps.Step }

type errorText string

func (e errorText) Error() string { return string(e) }

const errURL = errorText("url: is missing")

func testKinds(kinds.Options) []steps.Kind { return []steps.Kind{call{"http"}, call{"job"}} }

// The report on each testdata/x.yaml is testdata/x.golden.
func TestFiles(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, input := range inputs {
		t.Run(filepath.Base(input), func(t *testing.T) {
			got := reportOf(t, input)
			golden := strings.TrimSuffix(input, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func reportOf(t *testing.T, inputs ...string) string {
	t.Helper()
	var files []File
	for _, input := range inputs {
		text, err := os.ReadFile(input)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Name: filepath.Base(input), Text: text})
	}
	report := Files(files, testKinds)
	var lines strings.Builder
	for _, finding := range report.Findings {
		lines.WriteString(finding.String() + "\n")
	}
	for _, disabled := range report.Disabled {
		lines.WriteString("disabled: " + disabled.String() + "\n")
	}
	for _, unchecked := range report.Unchecked {
		lines.WriteString("not checked: " + unchecked.String() + "\n")
	}
	return lines.String() + report.Summary() + "\n"
}

// What is missing in one file may be in another.
func TestFilesAreCheckedAgainstOneAnother(t *testing.T) {
	if got := reportOf(t, "testdata/unregistered.yaml"); !strings.Contains(got, "is not known") {
		t.Errorf("a Rollout alone:\n%s", got)
	}
	got := reportOf(t, "testdata/unregistered.yaml", "testdata/right.yaml")
	if !strings.Contains(got, "unregistered.yaml: document 1: Rollout demo/other: spec.strategy.canary.steps[0].plugin.name: acme/run-e2e is not registered under stepPlugins of argo-rollouts-config; did you mean acme/run-e2e-tests?") {
		t.Errorf("with argo-rollouts-config in another file:\n%s", got)
	}
}

// lint reports a Rollout that uses a Secret of the preset in a request of its own, as the
// plugin does.
func TestASecretOfAPreset(t *testing.T) {
	const text = `
kind: ConfigMap
apiVersion: v1
metadata: {namespace: argo-rollouts, name: argo-rollouts-config}
data:
  stepPlugins: |
    - {name: acme/e2e, location: "https://example.com/rollouts-plugin-step", sha256: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", args: [http, --preset=argo-rollouts/e2e, --secrets-namespace=argo-rollouts]}
---
kind: ConfigMap
apiVersion: v1
metadata: {namespace: argo-rollouts, name: e2e}
data:
  preset.yaml: |
    hosts: [ci.example.com]
    defaults: {request: {url: /runs}, server: {url: "https://ci.example.com", auth: {bearer: {valueFrom: {secretKeyRef: {namespace: argo-rollouts, name: ci, key: token}}}}}}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {namespace: demo, name: app}
spec: {strategy: {canary: {steps: [{setWeight: 20}, {plugin: {name: acme/e2e, config: {onAbort: {url: /payroll}}}}]}}}
`
	report := Files([]File{{"f.yaml", []byte(text)}}, kinds.All)
	if len(report.Findings) != 1 || !strings.Contains(report.Findings[0].String(), "steps[1].plugin.config: http.onAbort.url: onAbort has a Secret of another namespace") {
		t.Errorf("got %v", report.Findings)
	}
}

func FuzzFiles(f *testing.F) {
	inputs, _ := filepath.Glob("testdata/*.yaml")
	for _, input := range inputs {
		text, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) { Files([]File{{"f", text}}, testKinds) })
}
