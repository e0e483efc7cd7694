package rolloutsplugin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/steps/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// panickingStep panics in every call: the interface it embeds is nil.
type panickingStep struct{ rpc.StepPlugin }

func TestGuardKeepsTheStatusOfAStepThatPanics(t *testing.T) {
	log := &bytes.Buffer{}
	guard := GuardStep(panickingStep{}, hclog.New(&hclog.LoggerOptions{Output: log}))
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app"}}
	status := json.RawMessage(`{"key":"1"}`)
	said := func(t *testing.T, text, call string) {
		t.Helper()
		if !strings.Contains(text, call+" for Rollout demo/app") || !strings.Contains(text, "nil pointer") {
			t.Errorf("%q names not the call, the Rollout and the panic", text)
		}
		if !strings.Contains(log.String(), "guardstep_test.go") {
			t.Errorf("no stack in the log: %s", log)
		}
	}
	t.Run("Run with a status", func(t *testing.T) {
		log.Reset()
		result, err := guard.Run(ro, &types.RpcStepContext{Status: status})
		if err.HasError() || result.Phase != types.PhaseRunning || string(result.Status) != string(status) || result.RequeueAfter < 11*time.Second {
			t.Errorf("Run = %+v, %v; want Running with the status of the call", result, err)
		}
		said(t, result.Message, "Run")
	})
	for name, call := range map[string]*types.RpcStepContext{
		"without a status": {}, "with a null status": {Status: json.RawMessage(" null")}, "without a context": nil,
	} {
		t.Run("Run "+name, func(t *testing.T) {
			log.Reset()
			result, err := guard.Run(ro, call)
			if result.Phase != "" || result.Status != nil {
				t.Errorf("Run = %+v", result)
			}
			said(t, err.Error(), "Run")
		})
	}
	for name, call := range map[string]func(*v1alpha1.Rollout, *types.RpcStepContext) (types.RpcStepResult, types.RpcError){
		"Abort": guard.Abort, "Terminate": guard.Terminate,
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			result, err := call(ro, &types.RpcStepContext{Status: status})
			if err.HasError() || result.Phase != types.PhaseFailed {
				t.Errorf("%s = %+v, %v", name, result, err)
			}
			said(t, result.Message, name)
		})
	}
	t.Run("InitPlugin", func(t *testing.T) {
		if err := guard.InitPlugin(); !strings.Contains(err.Error(), "InitPlugin: a bug in the plugin: panic") {
			t.Errorf("InitPlugin: %v", err)
		}
	})
}
