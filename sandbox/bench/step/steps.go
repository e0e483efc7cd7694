package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

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
	result, err := s.call(p)
	took := time.Since(began)
	if err == nil && result.Phase != types.PhaseRunning {
		err = fmt.Errorf("%s of Rollout %s is %s: %s", s.what, s.rollout.Name, result.Phase, result.Message)
	}
	return took, err
}

// call calls the step.
func (s *step) call(p *process) (types.RpcStepResult, error) {
	result, err := p.Run(s.rollout, &types.RpcStepContext{PluginName: s.name, Config: s.config(s.group), Status: s.status})
	if err.HasError() {
		return result, err
	}
	s.status = result.Status
	return result, nil
}

// of returns the same Rollout at the beginning of another step.
func (s *step) of(other wait) *step {
	clone := *s
	clone.wait, clone.status = other, nil
	return &clone
}

// store keeps the step's status in the Rollout, as the controller does after each call.
func (s *step) store(ctx context.Context, w *world) error {
	patched, err := w.rolloutsIn(gauge.Namespace).patchStatus(ctx, s.rollout.Name, map[string]any{"canary": map[string]any{"stepPluginStatuses": []any{map[string]any{
		"index": 1, "name": s.name, "operation": v1alpha1.StepPluginOperationRun, "phase": v1alpha1.StepPluginPhaseRunning,
		"updatedAt": metav1.Now(), "backoff": "15s", "status": s.status,
	}}}})
	if err != nil {
		return err
	}
	s.rollout, err = typed(patched)
	return err
}

func typed(object *unstructured.Unstructured) (*v1alpha1.Rollout, error) {
	ro := &v1alpha1.Rollout{}
	return ro, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, ro)
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
	err := gauge.Each(workers, 0, waitingSteps+waitingSteps/groupSize, func(i int) error {
		name, group, at := fmt.Sprintf("standing-%04d", i), groupOf(i), 1
		if i >= waitingSteps {
			group, at = groupOf((i-waitingSteps)*groupSize), 0
			name = "before-" + group
		}
		ro, err := w.makeStanding(ctx, gauge.Namespace, name, group, at, barrier)
		if err == nil && i < waitingSteps {
			all[i] = &step{wait: barrier, rollout: ro, group: group}
		}
		return err
	})
	if err == nil {
		w.steps = all
	}
	return all, err
}

// makeStanding makes a Rollout with a canary that is at a step, as the controller would
// leave it.
func (w *world) makeStanding(ctx context.Context, namespace, name, group string, at int, barrier wait) (*v1alpha1.Rollout, error) {
	object, err := rollout(namespace, name, group, []v1alpha1.CanaryStep{pause(), pluginStep(barrier.name, barrier.config(group)), pause()})
	if err != nil {
		return nil, err
	}
	if err := w.rolloutsIn(namespace).create(ctx, object); err != nil {
		return nil, err
	}
	phase := v1alpha1.RolloutPhaseProgressing
	if at == 0 {
		phase = v1alpha1.RolloutPhasePaused
	}
	made, err := w.rolloutsIn(namespace).patchStatus(ctx, name, map[string]any{
		"observedGeneration": strconv.Itoa(1), "phase": phase, "message": "more replicas need to be updated",
		"currentStepIndex": at, "currentPodHash": "7f4d9c5b66", "stableRS": "5c8b6d9f77", "updatedReplicas": 1, "replicas": 4,
	})
	if err != nil {
		return nil, err
	}
	return typed(made)
}
