package jobstep

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// The Job that takes back is told why the canary was aborted.
func TestOnAbortIsToldWhy(t *testing.T) {
	h := newHost(t, `{"job": {
		"template": {"spec": {"containers": [{"name": "smoke", "image": "migrate:1"}]}},
		"onAbort": {"template": {"spec": {"containers": [{"name": "smoke", "image": "migrate:1", "env": [{"name": "WHY", "value": "$(ROLLOUT_NAME): {{ abort.reason }}"}]}]}}}}}`)
	h.run()
	h.put(h.job(), completed)
	h.want(h.run(), types.PhaseSuccessful)
	h.ro.Status.Abort = true
	h.ro.Status.Conditions = []v1alpha1.RolloutCondition{{
		Type: v1alpha1.RolloutProgressing, Reason: "RolloutAborted", Message: "Rollout aborted update to revision 2: Step Plugin 4 (kedify/step) failed: $(TOKEN) $$ 5",
	}}
	h.abort()
	undo := h.undoJob()
	if undo == nil {
		t.Fatal("there is no Job that takes back")
	}
	why := ""
	for _, env := range undo.Spec.Template.Spec.Containers[0].Env {
		if env.Name == "WHY" {
			why = env.Value
		}
	}
	// Kubernetes replaces what the author has written, and not what the reason has: $$ is $.
	if why != "$(ROLLOUT_NAME): Step Plugin 4 (kedify/step) failed: $$(TOKEN) $$$$ 5" {
		t.Errorf("got %q", why)
	}
}

// The step's own Job runs before there is a reason.
func TestAJobKnowsNoReason(t *testing.T) {
	_, err := newHost(t, `{}`).kind.Parse(steps.Source{Config: json.RawMessage(`{"template": {"spec": {"containers": [{"name": "c", "image": "{{ abort.reason }}"}]}}}`)})
	if err == nil || !strings.Contains(err.Error(), "there is no abort here") {
		t.Errorf("got %v", err)
	}
}
