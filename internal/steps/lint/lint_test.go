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
		steps.Settings `json:",inline"`
		URL            string            `json:"url"`
		Headers        map[string]string `json:"headers,omitempty"`
		Success        string            `json:"success,omitempty"`
	}
	if err := strict.Decode(source.Config, &config); err != nil {
		return nil, err
	}
	if config.URL == "" {
		return nil, errURL
	}
	return settingsOf{settings: config.Settings}, nil
}

// settingsOf is a step that makes no operation here.
type settingsOf struct {
	steps.Step
	settings steps.Settings
}

func (s settingsOf) Settings() steps.Settings { return s.settings }

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
    defaults: {request: {url: "https://ci.example.com", auth: {bearer: {valueFrom: {secretKeyRef: {namespace: argo-rollouts, name: ci, key: token}}}}}}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {namespace: demo, name: app}
spec: {strategy: {canary: {steps: [{setWeight: 20}, {plugin: {name: acme/e2e, config: {onAbort: {url: "https://ci.example.com/payroll"}}}}]}}}
`
	report := Files([]File{{"f.yaml", []byte(text)}}, kinds.All)
	if len(report.Findings) != 1 || !strings.Contains(report.Findings[0].String(), "steps[1].plugin.config: onAbort.url: onAbort has a Secret of another namespace") {
		t.Errorf("got %v", report.Findings)
	}
}

func TestReferredTo(t *testing.T) {
	for text, want := range map[string]string{
		"{{ .steps.e2e.outputs.url }}":                            "e2e",
		"{{.steps.a.outputs.b}}/{{ .steps.c.outputs.d | upper }}": "a c",
		`{{ (index .steps "run-e2e").outputs.url }}`:              "run-e2e",
		`{{ index .steps "0" "outputs" "url" }}`:                  "0",
		"steps.e2e.outputs.state == 'done'":                       "e2e",
		`steps["run-e2e"].outputs.state == "done" && !steps['b']`: "run-e2e b",
		"{{ .rollout.name }} https://example.com/steps.html":      "",
		"https://example.com/steps.e2e.outputs":                   "",
		"the steps.of something":                                  "",
		"{{ .others.steps.x }}":                                   "",
	} {
		if got := strings.Join(referredTo(text), " "); got != want {
			t.Errorf("referredTo(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestUnknownIn(t *testing.T) {
	for text, want := range map[string]string{
		"{{ .rollout.name }} {{ .images.new.web }} {{ .step.key }} {{ .hash.old }} {{ .weight }}": "",
		"{{ .rollout.labels.team }}":                                     "",
		"{{ .rollout.nam }}":                                             "there is no .rollout.nam: did you mean .rollout.name?",
		"{{ .services.cannary | upper }}":                                "there is no .services.cannary: did you mean .services.canary?",
		`{{ print ".rollout.nam" }} .rollout.nam`:                        "",
		"{{ .response.status }} {{ (index .x 0).rollout.nam }}":          "",
		"{{ $x.rollout.nam }}{{ .rollout.annotations.a }}":               "",
		"{{ range .rollout.labels }}{{ .rollout.nam }}{{ end }}":         "",
		"https://rollout.nam/{{ .images.news }}{{ .steps.a.outputs.b }}": "there is no .images.news: did you mean .images.new?",
	} {
		if got := strings.Join(unknownIn(text), "; "); got != want {
			t.Errorf("unknownIn(%q) = %q, want %q", text, got, want)
		}
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
