package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	// delayTime is how long the delays are measured; changeEvery and releaseEvery are the
	// times from one change to the next in a colony: long enough for one API server
	// to keep up.
	delayTime    = 45 * time.Second
	changeEvery  = 500 * time.Millisecond
	releaseEvery = 4 * time.Second
)

// delays measures how long a controller takes to process some Rollouts while 200
// others wait in a step. Each kind of step has its own controller, and all are
// measured at the same time, so that other load on the machine delays all of them.
func (w *world) delays(ctx context.Context) error {
	// Remove the Rollouts of the other parts.
	if err := w.rolloutsIn(gauge.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	w.steps = nil
	nothing, poll, slowPoll, barrier := w.nothing(), w.poll(), w.slowPoll(), w.barrier()
	var colonies []*colony
	for i, wait := range []*wait{nil, &nothing, &poll, &slowPoll, &barrier} {
		c, err := w.newColony(ctx, i, wait)
		if err != nil {
			return err
		}
		defer c.close()
		colonies = append(colonies, c)
	}
	all := make([]*delay, len(colonies))
	for _, stage := range []struct {
		say string
		do  func(i int, c *colony) error
	}{
		// Without the controller's limit of requests a second, which would make
		// this step take long.
		{"start controllers", func(_ int, c *colony) error { return c.restart(ctx, w, "--qps=1000", "--burst=2000") }},
		{fmt.Sprintf("make %d Rollouts each", waitingRollouts+changedRollouts+releasedRollouts), func(_ int, c *colony) error { return c.populate(ctx) }},
		{"have the controllers' own limits again", func(_ int, c *colony) error { return c.restart(ctx, w) }},
		{fmt.Sprintf("have %d Rollouts each come to a step", waitingRollouts), func(_ int, c *colony) error { return c.enter(ctx) }},
		{"have each step called again", func(int, *colony) error { return sleepUntil(ctx, time.Now().Add(callEvery)) }},
		{fmt.Sprintf("change and release others for %s", delayTime), func(i int, c *colony) (err error) {
			all[i], err = c.delay(ctx)
			return err
		}},
	} {
		gauge.Say("%d colonies: %s", len(colonies), stage.say)
		if err := gauge.Each(len(colonies), 0, len(colonies), func(i int) error {
			if err := stage.do(i, colonies[i]); err != nil {
				return fmt.Errorf("%s: %w", colonies[i].what, err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	printDelays(all)
	return nil
}

// delay is what was measured in a colony.
type delay struct {
	what string
	// changes and releases are in milliseconds, sorted.
	changes, releases []float64
	// controller and plugin are the processor time that each takes per second.
	controller, plugin time.Duration
	// requests is the controller's requests per second, pluginRequests the total of
	// the plugin's.
	requests       float64
	pluginRequests int
}

// delay changes and releases Rollouts, and returns how long the controller takes.
func (c *colony) delay(ctx context.Context) (*delay, error) {
	ownBefore, pluginBefore, err := c.controller.cpu()
	if err != nil {
		return nil, err
	}
	requestsBefore, _ := c.counter.of(controllerAgent)
	pluginRequestsBefore, _ := c.counter.of(pluginAgent)
	began := time.Now()
	changed, released := newTurns("changed", changedRollouts), newTurns("released", releasedRollouts)
	for n := 1; time.Since(began) < delayTime; n++ {
		if err := sleepUntil(ctx, began.Add(time.Duration(n)*changeEvery)); err != nil {
			return nil, err
		}
		changed.next(func(name string) (time.Duration, error) { return c.change(ctx, name) })
		if n%int(releaseEvery/changeEvery) == 0 {
			released.next(func(name string) (time.Duration, error) { return c.release(ctx, name) })
		}
	}
	d := &delay{what: c.what}
	if d.changes, err = changed.end(); err != nil {
		return nil, err
	}
	if d.releases, err = released.end(); err != nil {
		return nil, err
	}
	own, plugin, err := c.controller.cpu()
	if err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds()
	requests, _ := c.counter.of(controllerAgent)
	pluginRequests, _ := c.counter.of(pluginAgent)
	d.controller = time.Duration(float64(own-ownBefore) / seconds)
	d.plugin = time.Duration(float64(plugin-pluginBefore) / seconds)
	d.requests, d.pluginRequests = float64(requests-requestsBefore)/seconds, pluginRequests-pluginRequestsBefore
	return d, nil
}

// change changes a field that makes no new version, and returns how long the
// controller takes to observe it.
func (c *colony) change(ctx context.Context, name string) (time.Duration, error) {
	began := time.Now()
	patched, err := c.patchSpec(ctx, name, map[string]any{"progressDeadlineSeconds": 1000 + serial.Add(1)})
	if err != nil {
		return 0, err
	}
	err = c.observer.await(ctx, name, "its change is observed", func(ro *v1alpha1.Rollout) bool { return observed(ro, patched.GetGeneration()) })
	return time.Since(began), err
}

// release makes a new version, and returns how long the controller takes until its
// canary pauses.
func (c *colony) release(ctx context.Context, name string) (time.Duration, error) {
	before := c.observer.of(name).Status.CurrentPodHash
	began := time.Now()
	patched, err := c.patchSpec(ctx, name, template(name))
	if err != nil {
		return 0, err
	}
	err = c.observer.await(ctx, name, "its new canary pauses", func(ro *v1alpha1.Rollout) bool {
		return observed(ro, patched.GetGeneration()) && ro.Status.CurrentPodHash != before && waitsAt(ro, 1)
	})
	return time.Since(began), err
}

// observed tells whether the controller has observed a generation, or one after it.
func observed(ro *v1alpha1.Rollout, generation int64) bool {
	seen, err := strconv.ParseInt(ro.Status.ObservedGeneration, 10, 64)
	return err == nil && seen >= generation
}

// printDelays prints all delays, of which the first is that of a pause, and the second that
// of the step that does nothing.
func printDelays(all []*delay) {
	table := gauge.NewTable(fmt.Sprintf("while %d Rollouts stand in\ta change is observed: p50\tp99\tp50 of a pause's, do-nothing's\ta release pauses: p50\tp99\tp50 of a pause's, do-nothing's\tcontroller: requests/s\tprocessor\tplugin: requests\tprocessor\t", waitingRollouts))
	figures := func(own, pause, nothing []float64) string {
		p50 := gauge.Quantile(own, 0.5)
		return fmt.Sprintf("%.0f ms\t%.0f ms\t%.2f, %.2f\t", p50, gauge.Quantile(own, 0.99), p50/gauge.Quantile(pause, 0.5), p50/gauge.Quantile(nothing, 0.5))
	}
	pause, nothing := all[0], all[1]
	for _, d := range all {
		table.Row("%s\t%s%s%.1f\t%.1f %%\t%d\t%.1f %%\t", d.what, figures(d.changes, pause.changes, nothing.changes), figures(d.releases, pause.releases, nothing.releases),
			d.requests, 100*d.controller.Seconds(), d.pluginRequests, 100*d.plugin.Seconds())
	}
	table.Print()
}

// turns changes Rollouts in turn; a Rollout's next change waits until its last one
// is done.
type turns struct {
	free    chan string
	results chan result
	begun   int
}

type result struct {
	took time.Duration
	err  error
}

func newTurns(role string, n int) *turns {
	t := &turns{free: make(chan string, n), results: make(chan result, delayTime/changeEvery+1)}
	for i := range n {
		t.free <- nameOf(role, i)
	}
	return t
}

// next changes the next Rollout. If none is free, the turn is left out.
func (t *turns) next(change func(name string) (time.Duration, error)) {
	select {
	case name := <-t.free:
		t.begun++
		go func() {
			took, err := change(name)
			t.results <- result{took, err}
			t.free <- name
		}()
	default:
	}
}

// end waits for the changes, and returns how long they took in milliseconds, sorted.
func (t *turns) end() ([]float64, error) {
	var all []float64
	var failure error
	for range t.begun {
		r := <-t.results
		if r.err != nil {
			failure = r.err
		}
		all = append(all, gauge.Milliseconds(r.took))
	}
	slices.Sort(all)
	return all, failure
}
