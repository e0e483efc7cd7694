package resourcestep

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
)

func newKind(t testing.TB, allowed ...string) steps.Kind {
	t.Helper()
	opts := Options{Logger: hclog.NewNullLogger()}
	for _, text := range allowed {
		g, err := registration.ParseGroupKind(text)
		if err != nil {
			t.Fatal(err)
		}
		opts.Allowed = append(opts.Allowed, g)
	}
	return New(opts)
}

// The error about a mistake names its path.
func TestConfigMistakes(t *testing.T) {
	const manifest, success = `"manifest": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {}}`, `"successCondition": "true"`
	with := func(keys string) string {
		return `{"manifest": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", ` + keys + `}, ` + success + `}`
	}
	for config, want := range map[string]string{
		`{` + success + `}`:                                   "manifest: want an object with apiVersion, kind",
		`{"manifset": {}}`:                                    `manifset: the key is not known: did you mean "manifest"?`,
		`{"manifest": []}`:                                    "manifest: want an object, not a list",
		with(`"Metadata": {"name": "x"}`):                     "manifest.Metadata: want metadata",
		`{"manifest": {"kind": "Workflow"}, ` + success + `}`: "manifest.apiVersion: want a group and a version",
		`{"manifest": {"apiVersion": "a/b/c", "kind": "Workflow"}, ` + success + `}`:                 `manifest.apiVersion: want a group and a version such as argoproj.io/v1alpha1, without {{ }}, not "a/b/c"`,
		`{"manifest": {"apiVersion": "{{ rollout.name }}/v1", "kind": "Workflow"}, ` + success + `}`: "manifest.apiVersion",
		`{"manifest": {"apiVersion": "argoproj.io/v1alpha1", "kind": "workflows"}, ` + success + `}`: `manifest.kind: want a kind such as Workflow, without {{ }}, not "workflows"`,
		`{"manifest": {"apiVersion": "argoproj.io/v1alpha1", "kind": 1}, ` + success + `}`:           "manifest.kind",
		with(`"metadata": {"name": "e2e"}`):                                                          "manifest.metadata.name: leave it out: the object is named after the Rollout",
		with(`"metadata": {"generateName": "e2e-"}`):                                                 "manifest.metadata.generateName: leave it out",
		with(`"metadata": {"namespace": "kube-system"}`):                                             "manifest.metadata.namespace: leave it out: the object is in the Rollout's namespace",
		with(`"metadata": {"ownerReferences": []}`):                                                  "manifest.metadata.ownerReferences: leave it out",
		with(`"metadata": "{{ rollout.labels }}"`):                                                   "manifest.metadata: want an object",
		with(`"metadata": {"labels": {"a": 1}}`):                                                     "manifest.metadata.labels.a: want a string: put it in quotes",
		with(`"metadata": {"labels": ["a"]}`):                                                        "manifest.metadata.labels: want an object of strings",
		`{"manifest": {"apiVersion": "argoproj.io/..", "kind": "Workflow"}, ` + success + `}`:        `manifest.apiVersion: want a group and a version such as argoproj.io/v1alpha1, without {{ }}, not "argoproj.io/.."`,
		`{"manifest": {"apiVersion": "Argoproj.io/v1alpha1", "kind": "Workflow"}, ` + success + `}`:  `manifest.apiVersion: want a group and a version such as argoproj.io/v1alpha1, without {{ }}, not "Argoproj.io/v1alpha1"`,
		with(`"spec": {"large": "` + strings.Repeat("x", 70_000) + `"}`):                             "manifest: JSON of more than 64 KiB is not allowed",
		with(`"status": {}`):                                                    "manifest.status: leave it out",
		with(`"spec": {"args": ["{{ rollout.nme }}"]}`):                         `manifest.spec.args[0]: rollout.nme: there is no rollout.nme: did you mean rollout.name?`,
		with(`"spec": {"args": ["{{workflow.name}}"]}`):                         `a {{ for the object's own controller is written {{ "{{" }}`,
		with(`"spec": {"args": ["{{ object.status }}"]}`):                       "there is no object here",
		`{` + manifest + `}`:                                                    "successCondition: want an expression",
		`{` + manifest + `, "successCondition": "object.status.phase"}`:         "",
		`{` + manifest + `, "successCondition": "response.status == 200"}`:      "successCondition: ",
		`{` + manifest + `, "successCondition": "objct.status == 'x'"}`:         "did you mean object.status?",
		`{` + manifest + `, ` + success + `, "failureCondition": "1"}`:          "failureCondition: 1: want true or false",
		`{` + manifest + `, ` + success + `, "outputs": {"a-b": "object.a"}}`:   `outputs.a-b: want a name of a letter`,
		`{` + manifest + `, ` + success + `, "outputs": {"a": "object."}}`:      "outputs.a: ",
		`{` + manifest + `, ` + success + `, "message": "{{ outputs.b }}"}`:     "message: ",
		`{` + manifest + `, ` + success + `, "outputs": {` + manyOutputs + `}}`: "outputs: 17: want 16 at most",
	} {
		_, err := newKind(t, "workflows.argoproj.io").Parse(steps.Source{Config: json.RawMessage(config)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s:\n%v, want %q", config, err, want)
		}
	}
}

var manyOutputs = func() string {
	var all []string
	for i := range 17 {
		all = append(all, fmt.Sprintf(`"o%d": "object.a"`, i))
	}
	return strings.Join(all, ", ")
}()

// What is not allowed is for the registration to mend: lint does not know it without that.
func TestNotAllowedIsOfTheRegistration(t *testing.T) {
	config := json.RawMessage(`{"manifest": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}, "successCondition": "true"}`)
	_, err := newKind(t).Parse(steps.Source{Config: config})
	var e *steps.Error
	if !errors.As(err, &e) || !e.Final {
		t.Errorf("%v", err)
	}
}
