package check

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// storedStep is what a step stores in a Rollout's status.
const storedStep = `{kind: KIND, id: "0", key: 0123456789abcdef0123456789abcdef, index: 0, started: "2026-01-01T00:00:00Z", called: "2026-01-01T00:00:00Z", elapsed: 1, attempt: ATTEMPT, stage: STAGE, process: abc}`

func TestStepStates(t *testing.T) {
	stored := func(kind, stage string) string {
		return strings.NewReplacer("KIND", kind, "ATTEMPT", "1", "STAGE", stage).Replace(storedStep)
	}
	preset := func(name string) (*steps.Preset, error) {
		if name != "e2e" {
			return nil, errors.New("not allowed")
		}
		return steps.ReadPreset([]byte("defaults: {http: {request: {url: /x}, cancel: {url: /y}}}"))
	}
	const at = `startedAt: "2026-01-01T11:58:00Z"`
	for name, tc := range map[string]struct{ config, status, want string }{
		"registered alone":  {"{request: {url: /x}}, NAME: acme/ci", "{operation: Run, phase: Running, status: " + stored("http", "Running") + "}", "acme/ci|Running|-|what its preset says, if it has one|"},
		"its own cancel":    {"{cancel: {url: /x}}, NAME: acme/ci", "{operation: Run, phase: Running, status: " + stored("http", "Running") + "}", "acme/ci|Running|-|cancels it|"},
		"no cancel":         {"{http: {request: {url: /x}}}", "{operation: Run, phase: Running, status: " + stored("http", "Running") + "}", "kedify/step|Running|-|nothing: it has no cancel|"},
		"to come":           {"{use: e2e}", "", "e2e|to come|-|nothing|"},
		"cancels":           {"{use: e2e}", "{operation: Run, phase: Running, message: run 1, " + at + ", status: " + stored("http", "Running") + "}", "e2e|Running|2m|cancels it|run 1"},
		"perhaps sent":      {"{use: e2e}", "{operation: Run, phase: Running, " + at + ", status: " + stored("http", "New") + "}", "e2e|Running|2m|cancels it if it was started|"},
		"no undo":           {"{use: e2e}", "{operation: Run, phase: Successful, " + at + `, finishedAt: "2026-01-01T11:59:00Z", status: ` + stored("http", "Done") + "}", "e2e|Successful|60s|nothing: it has no onAbort|"},
		"undo":              {"{id: a, http: {onAbort: {url: /z}}}", "{operation: Run, phase: Successful, status: " + stored("http", "Done") + "}", "a|Successful|-|undoes it|"},
		"no preset":         {"{use: other}", "{operation: Run, phase: Running, status: " + stored("http", "Running") + "}", "other|Running|-|what its preset says|"},
		"a Job":             {"{job: {}}", "{operation: Run, phase: Running, status: " + stored("job", "Running") + "}", "kedify/step|Running|-|deletes its Job|"},
		"a barrier":         {"{rollouts: {}}", "{operation: Run, phase: Running, status: " + stored("rollouts", "Running") + "}", "kedify/step|Running|-|nothing|"},
		"failed":            {"{use: e2e}", "{operation: Run, phase: Failed, message: \"a\\n b\", status: " + stored("http", "Failed") + "}", "e2e|Failed|-|nothing|a b"},
		"failed, ignored":   {"{http: {onAbort: {url: /z}}}", "{operation: Run, phase: Successful, status: " + stored("http", "Failed") + "}", "kedify/step|Successful|-|nothing|"},
		"a Job, ignored":    {"{job: {}}", "{operation: Run, phase: Successful, status: " + stored("job", "Failed") + "}", "kedify/step|Successful|-|nothing|"},
		"aborted":           {"{use: e2e}", "{operation: Run, phase: Running, status: " + stored("http", "Running") + "}, {operation: Abort, phase: Successful, message: the work was cancelled}", "e2e|Running, Abort Successful|-|nothing|the work was cancelled"},
		"of another plugin": {"{}", "{operation: Run, phase: Running, status: {some: thing}}", "kedify/step|Running|-|nothing|"},
		"second attempt":    {"{use: e2e}", "{operation: Run, phase: Running, status: " + strings.Replace(stored("http", "Running"), "attempt: 1", "attempt: 2", 1) + "}", "e2e|Running, attempt 2|-|cancels it|"},
	} {
		t.Run(name, func(t *testing.T) {
			config, plugin, isNamed := strings.Cut(tc.config, ", NAME: ")
			if !isNamed {
				plugin = "kedify/step"
			}
			status := strings.ReplaceAll(tc.status, "{operation", "{index: 1, name: "+plugin+", operation")
			ro := parse[v1alpha1.Rollout]("spec: {strategy: {canary: {steps: [{setWeight: 20}, {plugin: {name: " + plugin + ", config: " + config + "}}]}}}\nstatus: {canary: {stepPluginStatuses: [" + status + "]}}")
			states := stepStates(&ro, preset, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
			if len(states) != 1 || states[0].place != 2 {
				t.Fatalf("%+v", states)
			}
			s := states[0]
			if diff := cmp.Diff(tc.want, strings.Join([]string{s.name, s.state, s.since, s.onAbort, s.message}, "|")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestStepsCommand(t *testing.T) {
	const rollout = `{"metadata": {"namespace": "shop", "name": "app"}, "spec": {"strategy": {"canary": {"steps": [{"plugin": {"name": "kedify/step", "config": {"use": "e2e"}}}]}}}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/app":
			_, _ = w.Write([]byte(rollout))
		case "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/none":
			_, _ = w.Write([]byte(`{"metadata": {"namespace": "shop", "name": "none"}}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for name, tc := range map[string]struct{ says, err string }{
		"app":  {"STEP  NAME  STATE    FOR  ON ABORT  MESSAGE\n1/1   e2e   to come  -    nothing   \n", ""},
		"none": {"Rollout shop/none has no plugin steps\n", ""},
		"gone": {"", "rollouts.argoproj.io gone in namespace shop"},
	} {
		cmd := NewStepsCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs([]string{name, "--kubeconfig", kubeconfig(t, server.URL, "shop")})
		err := cmd.Execute()
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) || out.String() != tc.says {
			t.Errorf("%s: %v, and prints\n%s", name, err, out.String())
		}
	}
}
