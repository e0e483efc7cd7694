package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// waitingSteps is how many steps wait at a barrier.
const waitingSteps = 1000

// step is the step of a Rollout, called as the controller calls it.
type step struct {
	wait
	rollout *v1alpha1.Rollout
	group   string
	status  json.RawMessage
}

// run calls the step, which goes on waiting, and returns how long that took.
func (s *step) run(p *process) (time.Duration, error) {
	began := time.Now()
	phase, err := s.call(p)
	took := time.Since(began)
	if err == nil && phase != types.PhaseRunning {
		err = fmt.Errorf("%s of Rollout %s is %s", s.what, s.rollout.Name, phase)
	}
	return took, err
}

// call calls the step, and fails if the step does.
func (s *step) call(p *process) (types.StepPhase, error) {
	result, err := p.Run(s.rollout, &types.RpcStepContext{PluginName: s.name, Config: json.RawMessage(s.config(s.group)), Status: s.status})
	switch {
	case err.HasError():
		return "", err
	case result.Phase == types.PhaseFailed || result.Phase == types.PhaseError:
		return "", fmt.Errorf("%s of Rollout %s is %s: %s", s.what, s.rollout.Name, result.Phase, result.Message)
	}
	s.status = result.Status
	return result.Phase, nil
}

// of returns the same Rollout at the beginning of another step.
func (s *step) of(other wait) *step {
	return &step{wait: other, rollout: s.rollout, group: s.group}
}

// store keeps the step's status in the Rollout, as the controller does after each call.
func (s *step) store(ctx context.Context, w *world) (err error) {
	s.rollout, err = w.rolloutsIn(gauge.Namespace).patchStatus(ctx, s.rollout.Name, map[string]any{"canary": map[string]any{"stepPluginStatuses": []any{map[string]any{
		"index": 1, "name": s.name, "operation": v1alpha1.StepPluginOperationRun, "phase": v1alpha1.StepPluginPhaseRunning,
		"updatedAt": metav1.Now(), "backoff": "15s", "status": s.status,
	}}}})
	return err
}

// standing returns Rollouts that wait at a barrier, which one more Rollout of each
// group has not reached. The first call makes them.
func (w *world) standing(ctx context.Context) ([]*step, error) {
	if w.steps != nil {
		return w.steps, nil
	}
	gauge.Say("making %d Rollouts that stand at a barrier, and %d that are before it", waitingSteps, waitingSteps/groupSize)
	barrier := w.barrier()
	all := make([]*step, waitingSteps)
	err := gauge.Each(workers, waitingSteps+waitingSteps/groupSize, func(i int) (err error) {
		if i >= waitingSteps {
			group := groupOf((i - waitingSteps) * groupSize)
			_, err = w.makeStanding(ctx, gauge.Namespace, "before-"+group, group, 0, barrier)
			return err
		}
		all[i], err = w.makeStanding(ctx, gauge.Namespace, fmt.Sprintf("standing-%04d", i), groupOf(i), 1, barrier)
		return err
	})
	w.steps = all
	return all, err
}

// makeStanding makes a Rollout with a canary that is at a step, as the controller would
// leave it: in the one that waits, or in the pause before.
func (w *world) makeStanding(ctx context.Context, namespace, name, group string, at int, in wait) (*step, error) {
	if err := w.Create(ctx, rollout(namespace, name, group, "[{pause: {}}, "+in.step(group)+", {pause: {}}]")); err != nil {
		return nil, err
	}
	phase := v1alpha1.RolloutPhaseProgressing
	if at == 0 {
		phase = v1alpha1.RolloutPhasePaused
	}
	made, err := w.rolloutsIn(namespace).patchStatus(ctx, name, map[string]any{
		"observedGeneration": "1", "phase": phase, "message": "more replicas need to be updated",
		"currentStepIndex": at, "currentPodHash": "7f4d9c5b66", "stableRS": "5c8b6d9f77", "updatedReplicas": 1, "replicas": 4,
	})
	return &step{wait: in, rollout: made, group: group}, err
}
