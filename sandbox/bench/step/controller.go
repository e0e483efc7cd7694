package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	// waitingRollouts wait in a step, while the controller observes changes of one more
	// Rollout in each group, which has no plugin steps.
	waitingRollouts = 200
	changedRollouts = waitingRollouts / groupSize
	// delayTime is how long the delays are measured, and changeEvery the time from one change
	// to the next in a colony: long enough for one API server to keep up.
	delayTime   = 45 * time.Second
	changeEvery = 500 * time.Millisecond
)

// delays measures how long a controller takes to observe changes of some Rollouts while 200
// others wait in a step. Each kind of step has its own controller, and all are
// measured at the same time, so that other load on the machine delays all of them.
func (w *world) delays(ctx context.Context) error {
	// The plugins are to watch no Rollouts of the other parts.
	if err := w.rolloutsIn(gauge.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	w.steps = nil
	pause := func(string) string { return "{pause: {}}" }
	colonies := []*colony{{what: "a pause", registration: w.doNothing(), step: pause}}
	for _, wait := range []wait{w.nothing(), w.poll(), w.slowPoll(), w.barrier()} {
		colonies = append(colonies, &colony{what: wait.what, registration: wait.registration, step: wait.step})
	}
	defer func() {
		for _, c := range colonies {
			c.controller.End()
		}
	}()
	gauge.Say("%d controllers, with %d Rollouts each that come to a step", len(colonies), waitingRollouts)
	if err := gauge.Each(len(colonies), len(colonies), func(i int) error { return colonies[i].populate(ctx, w, i) }); err != nil {
		return err
	}
	gauge.Say("each step is called again")
	if err := gauge.Pause(ctx, callEvery); err != nil {
		return err
	}
	gauge.Say("others are changed for %s", delayTime)
	if err := gauge.Each(len(colonies), len(colonies), func(i int) error { return colonies[i].measure(ctx) }); err != nil {
		return err
	}
	table := gauge.NewTable(fmt.Sprintf("while %d Rollouts stand in\ta change is observed: p50\tp99\tp50 of a pause's\tof do-nothing's\trequests/s of the controller\trequests of the plugin\t", waitingRollouts))
	p50 := func(c *colony) float64 { return gauge.Quantile(c.took, 0.5) }
	for _, c := range colonies {
		table.Row("%s\t%.0f ms\t%.0f ms\t%.2f\t%.2f\t%.1f\t%d\t", c.what, p50(c), gauge.Quantile(c.took, 0.99), p50(c)/p50(colonies[0]), p50(c)/p50(colonies[1]), c.rate, c.plugin)
	}
	table.Print()
	return nil
}

// colony is a namespace with Rollouts and a controller of its own.
type colony struct {
	what string
	registration
	// step is the step in which the Rollouts of a group wait.
	step func(group string) string

	rollouts
	namespace  string
	counter    *counter
	controller *gauge.Process

	took   []float64 // from changes until they are observed, in milliseconds, sorted
	rate   float64   // the controller's requests a second
	plugin int       // its plugin's requests
}

// populate makes the i-th colony: its controller, and Rollouts with canaries.
func (c *colony) populate(ctx context.Context, w *world, i int) (err error) {
	c.namespace = fmt.Sprintf("colony-%d", i)
	c.rollouts = w.rolloutsIn(c.namespace)
	if c.counter, err = newCounter(w.Config, filepath.Join(w.dir, c.namespace+".kubeconfig")); err != nil {
		return err
	}
	if err := w.startController(ctx, c, 18080+2*i); err != nil {
		return err
	}
	// The barriers wait for those that are to be changed, which have to be there before.
	if err := gauge.Each(workers, changedRollouts, func(i int) error {
		return c.makeCanary(ctx, w, changed(i), groupOf(i*groupSize), "[{setWeight: 20}, {pause: {}}]", 1)
	}); err != nil {
		return err
	}
	return gauge.Each(workers, waitingRollouts, func(i int) error {
		return c.makeCanary(ctx, w, fmt.Sprintf("waiting-%03d", i), groupOf(i), "["+c.step(groupOf(i))+", {pause: {}}]", 0)
	})
}

func changed(i int) string { return fmt.Sprintf("changed-%03d", i) }

// startController starts the controller of a colony, which knows the step plugin.
func (w *world) startController(ctx context.Context, c *colony, port int) error {
	plugins := fmt.Sprintf("[{name: %s, location: \"file://%s\", args: [%s]}]", c.name, c.path, strings.Join(c.args, ", "))
	if err := w.Create(ctx, namespace(c.namespace), gauge.Object(`
apiVersion: v1
kind: ConfigMap
metadata: {name: argo-rollouts-config, namespace: %s}
data: {stepPlugins: %q}`, c.namespace, plugins)); err != nil {
		return err
	}
	cmd := exec.Command(w.controller, "--namespaced", "--namespace="+c.namespace, "--leader-elect=false", fmt.Sprintf("--healthzPort=%d", port), fmt.Sprintf("--metricsPort=%d", port+1))
	cmd.Dir = filepath.Join(w.dir, c.namespace) // the controller keeps its plugins in it
	cmd.Env = append(os.Environ(), "POD_NAMESPACE="+c.namespace, "KUBECONFIG="+c.counter.kubeconfig)
	err := os.Mkdir(cmd.Dir, 0o755)
	if err == nil {
		c.controller, err = gauge.Launch(cmd)
	}
	if err != nil {
		return err
	}
	return c.controller.Await(ctx, 50*time.Millisecond, fmt.Sprintf("http://127.0.0.1:%d/healthz", port), "")
}

// makeCanary makes a Rollout, and waits until it has a canary that waits at a step.
func (c *colony) makeCanary(ctx context.Context, w *world, name, group, steps string, at int32) error {
	if err := w.Create(ctx, rollout(c.namespace, name, group, steps)); err != nil {
		return err
	}
	if err := c.await(ctx, name, "it is healthy", func(ro *v1alpha1.Rollout) bool {
		return ro.Status.Phase == v1alpha1.RolloutPhaseHealthy && ro.Status.StableRS != ""
	}); err != nil {
		return err
	}
	newVersion := map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"version": "v2"}}}}}
	if _, err := c.patch(ctx, name, newVersion); err != nil {
		return err
	}
	return c.await(ctx, name, "its canary waits", func(ro *v1alpha1.Rollout) bool {
		called := slices.ContainsFunc(ro.Status.Canary.StepPluginStatuses, func(s v1alpha1.StepPluginStatus) bool {
			return s.Phase == v1alpha1.StepPluginPhaseRunning && s.Executions > 0
		})
		return ro.Status.CurrentStepIndex != nil && *ro.Status.CurrentStepIndex == at && (called || len(ro.Status.PauseConditions) > 0)
	})
}

// measure changes Rollouts in turn, and measures how long the controller takes to observe it.
func (c *colony) measure(ctx context.Context) error {
	requests, plugin := c.counter.of(controllerAgent), c.counter.of(pluginAgent)
	n := int(delayTime / changeEvery)
	took, failures := make([]float64, n), make([]error, n)
	var changes sync.WaitGroup
	began := time.Now()
	for i := range n {
		if err := gauge.Pause(ctx, time.Until(began.Add(time.Duration(i)*changeEvery))); err != nil {
			return err
		}
		changes.Go(func() { took[i], failures[i] = c.change(ctx, changed(i%changedRollouts), 1000+i) })
	}
	changes.Wait()
	c.rate = float64(c.counter.of(controllerAgent)-requests) / time.Since(began).Seconds()
	c.plugin = c.counter.of(pluginAgent) - plugin
	slices.Sort(took)
	c.took = took
	for _, err := range failures {
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", c.what, err, c.controller.Log)
		}
	}
	return nil
}

// change changes a field that makes no new version, and returns how many milliseconds the
// controller takes to observe it.
func (c *colony) change(ctx context.Context, name string, deadline int) (float64, error) {
	began := time.Now()
	patched, err := c.patch(ctx, name, map[string]any{"spec": map[string]any{"progressDeadlineSeconds": deadline}})
	if err != nil {
		return 0, err
	}
	err = c.await(ctx, name, "its change is observed", func(ro *v1alpha1.Rollout) bool {
		seen, err := strconv.ParseInt(ro.Status.ObservedGeneration, 10, 64)
		return err == nil && seen >= patched.Generation
	})
	return gauge.Milliseconds(time.Since(began)), err
}
