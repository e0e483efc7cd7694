package rolloutsplugin

import (
	"bytes"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/steps/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
)

// afterPanic is when the controller is to call again after a panic.
const afterPanic = 30 * time.Second

// GuardStep returns a step plugin whose panics stay in the call they happened in, with the
// stack in the log. A panic of Run in a step that has a status is answered with that status
// and Running: after an error the controller would call neither Abort nor Terminate, and
// what the step has done outside would stay. Without a status it is an error, which the
// controller retries. A panic of Abort or Terminate fails it.
func GuardStep(step rpc.StepPlugin, logger hclog.Logger) rpc.StepPlugin {
	return &guardedStep{step: step, logger: logger}
}

type guardedStep struct {
	step   rpc.StepPlugin
	logger hclog.Logger
}

func (g *guardedStep) InitPlugin() (err types.RpcError) {
	defer func() {
		if cause := recover(); cause != nil {
			err = types.RpcError{ErrorString: panicked(g.logger, "InitPlugin", nil, cause)}
		}
	}()
	return g.step.InitPlugin()
}

func (g *guardedStep) Run(ro *v1alpha1.Rollout, call *types.RpcStepContext) (result types.RpcStepResult, err types.RpcError) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		said := panicked(g.logger, "Run", ro, cause)
		result, err = types.RpcStepResult{}, types.RpcError{ErrorString: said}
		if call != nil && hasStatus(call) {
			result, err = types.RpcStepResult{Phase: types.PhaseRunning, Message: said, RequeueAfter: afterPanic, Status: call.Status}, types.RpcError{}
		}
	}()
	return g.step.Run(ro, call)
}

func (g *guardedStep) Terminate(ro *v1alpha1.Rollout, call *types.RpcStepContext) (result types.RpcStepResult, err types.RpcError) {
	defer g.failed("Terminate", ro, &result, &err)
	return g.step.Terminate(ro, call)
}

func (g *guardedStep) Abort(ro *v1alpha1.Rollout, call *types.RpcStepContext) (result types.RpcStepResult, err types.RpcError) {
	defer g.failed("Abort", ro, &result, &err)
	return g.step.Abort(ro, call)
}

// failed is deferred by the calls that the controller makes once; it must be deferred
// directly.
func (g *guardedStep) failed(call string, ro *v1alpha1.Rollout, result *types.RpcStepResult, err *types.RpcError) {
	if cause := recover(); cause != nil {
		*result, *err = types.RpcStepResult{Phase: types.PhaseFailed, Message: panicked(g.logger, call, ro, cause)}, types.RpcError{}
	}
}

func (g *guardedStep) Type() string { return g.step.Type() }

// hasStatus tells whether a call is for a step that has been run before.
func hasStatus(call *types.RpcStepContext) bool {
	status := bytes.TrimSpace(call.Status)
	return len(status) > 0 && !bytes.Equal(status, []byte("null"))
}
