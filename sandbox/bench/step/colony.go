package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	// waitingRollouts wait in a step, while the controller works on changedRollouts
	// and releasedRollouts, which have no plugin steps.
	waitingRollouts  = 200
	changedRollouts  = waitingRollouts / groupSize
	releasedRollouts = 10
)

func nameOf(role string, i int) string { return fmt.Sprintf("%s-%03d", role, i) }

// colony is a namespace with Rollouts and a controller of its own.
type colony struct {
	what, namespace string
	port            int
	rollouts
	observer   *observer
	counter    *counter
	controller *controllerProcess
	// step is the step in which the Rollouts of a group wait.
	step func(group string) v1alpha1.CanaryStep
}

// newColony makes the i-th colony, whose Rollouts wait in the step wait, or in a
// pause if wait is nil. It has no Rollouts yet, and its controller does not run.
func (w *world) newColony(ctx context.Context, i int, wait *wait) (c *colony, err error) {
	c = &colony{
		what: "a pause", namespace: fmt.Sprintf("colony-%d", i), port: 18080 + 2*i,
		step: func(string) v1alpha1.CanaryStep { return v1alpha1.CanaryStep{Pause: &v1alpha1.RolloutPause{}} },
	}
	c.rollouts = w.rolloutsIn(c.namespace)
	registered := w.doNothing()
	if wait != nil {
		registered, c.what = wait.registration, wait.what
		c.step = func(group string) v1alpha1.CanaryStep { return pluginStep(wait.name, wait.config(group)) }
	}
	if err := w.register(ctx, c.namespace, registered); err != nil {
		return nil, err
	}
	if c.counter, err = newCounter(w.config, filepath.Join(w.dir, c.namespace)); err != nil {
		return nil, err
	}
	if c.observer, err = w.observe(ctx, c.namespace); err != nil {
		return nil, errors.Join(err, c.counter.Close())
	}
	return c, nil
}

func (c *colony) close() {
	c.stopController()
	c.observer.stop()
	_ = c.counter.Close()
}

func (c *colony) stopController() {
	if c.controller != nil {
		c.controller.stop()
	}
	c.controller = nil
}

// restart restarts the controller with other flags.
func (c *colony) restart(ctx context.Context, w *world, args ...string) (err error) {
	c.stopController()
	c.controller, err = w.startController(ctx, c, args...)
	return err
}

// populate makes the Rollouts: the waiting ones, in a pause before the step; one to
// be changed in each group; and the ones to be released.
func (c *colony) populate(ctx context.Context) error {
	weight := int32(20)
	plain := []v1alpha1.CanaryStep{{SetWeight: &weight}, pause()}
	return gauge.Each(workers, 0, waitingRollouts+changedRollouts+releasedRollouts, func(i int) error {
		switch changed := i - waitingRollouts; {
		case changed < 0:
			return c.make(ctx, nameOf("waiting", i), groupOf(i), 0, []v1alpha1.CanaryStep{pause(), c.step(groupOf(i)), pause()})
		case changed < changedRollouts:
			return c.make(ctx, nameOf("changed", changed), groupOf(changed*groupSize), 1, plain)
		default:
			return c.make(ctx, nameOf("released", changed-changedRollouts), "none", 1, plain)
		}
	})
}

// make makes a Rollout, and waits until it has a canary that pauses at a step.
func (c *colony) make(ctx context.Context, name, group string, at int, steps []v1alpha1.CanaryStep) error {
	object, err := rollout(c.namespace, name, group, steps)
	if err != nil {
		return err
	}
	if err := c.create(ctx, object); err != nil {
		return err
	}
	if err := c.observer.await(ctx, name, "it is healthy", func(ro *v1alpha1.Rollout) bool {
		return ro.Status.Phase == v1alpha1.RolloutPhaseHealthy && ro.Status.StableRS != ""
	}); err != nil {
		return err
	}
	if _, err := c.patchSpec(ctx, name, template(name)); err != nil {
		return err
	}
	return c.observer.await(ctx, name, fmt.Sprintf("its canary pauses at step %d", at), func(ro *v1alpha1.Rollout) bool { return waitsAt(ro, at) })
}

// enter moves the waiting Rollouts into the step, one after the other, so that
// calls of their steps are spread as evenly as with many teams.
func (c *colony) enter(ctx context.Context) error {
	began := time.Now()
	for i := range waitingRollouts {
		if err := sleepUntil(ctx, began.Add(callEvery*time.Duration(i)/waitingRollouts)); err != nil {
			return err
		}
		if _, err := c.patchStatus(ctx, nameOf("waiting", i), map[string]any{
			"currentStepIndex": 1, "pauseConditions": nil, "controllerPause": false,
		}); err != nil {
			return err
		}
	}
	for i := range waitingRollouts {
		if err := c.observer.await(ctx, nameOf("waiting", i), "it waits in the step", func(ro *v1alpha1.Rollout) bool { return waitsAt(ro, 1) }); err != nil {
			return err
		}
	}
	return nil
}

// waitsAt tells whether a Rollout waits at a step, which is a pause or a plugin's.
func waitsAt(ro *v1alpha1.Rollout, index int) bool {
	at := 0
	if ro.Status.CurrentStepIndex != nil {
		at = int(*ro.Status.CurrentStepIndex)
	}
	if at != index {
		return false
	}
	if ro.Spec.Strategy.Canary.Steps[index].Plugin == nil {
		return len(ro.Status.PauseConditions) > 0
	}
	return slices.ContainsFunc(ro.Status.Canary.StepPluginStatuses, func(s v1alpha1.StepPluginStatus) bool {
		return int(s.Index) == index && s.Phase == v1alpha1.StepPluginPhaseRunning && s.Executions > 0
	})
}

// serial makes values unique.
var serial atomic.Int32

// template is a pod template of a new version.
func template(name string) map[string]any {
	image := fmt.Sprintf("registry.example.com/shop/%s:v%d", name, serial.Add(1)+1)
	return map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": image}}}}}
}

// sleepUntil waits for a time.
func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return nil
	}
}
