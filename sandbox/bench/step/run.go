package main

import (
	"context"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	// runSteps is how many steps take turns.
	runSteps = 200
	// runsAlone and runsTogether are how many Runs one caller makes, and the controller's
	// workers together.
	runsAlone, runsTogether = 1000, 4000
)

// run measures how long Run of a waiting step takes, for one caller and for as many
// as the controller has workers.
func (w *world) run(ctx context.Context) error {
	standing, err := w.standing(ctx)
	if err != nil {
		return err
	}
	table := gauge.NewTable("Run of a waiting step\tcallers\tp50\tp99\tp99 of do-nothing\t")
	idle := map[int]float64{}
	for _, runs := range []struct {
		wait
		callers, n int
	}{
		{w.nothing(), 1, runsAlone},
		{w.poll(), 1, runsAlone},
		{w.barrier(), 1, runsAlone},
		{w.nothing(), workers, runsTogether},
		{w.poll(), workers, runsTogether},
		{w.barrier(), workers, runsTogether},
		// One poll of each step: the plugin waits for an answer for a second at most.
		{w.slowPoll(), workers, runSteps},
	} {
		took, err := timeRuns(standing, runs.wait, runs.callers, runs.n)
		if err != nil {
			return err
		}
		p99 := gauge.Quantile(took, 0.99)
		if idle[runs.callers] == 0 {
			idle[runs.callers] = p99
		}
		table.Row("%s\t%d\t%.2f ms\t%.2f ms\t%.2f\t", runs.what, runs.callers, gauge.Quantile(took, 0.5), p99, p99/idle[runs.callers])
	}
	table.Print()
	return nil
}

// timeRuns returns how long Runs of steps that wait take, in milliseconds, sorted.
func timeRuns(standing []*step, wait wait, callers, n int) ([]float64, error) {
	gauge.Say("%d Runs of %s, %d callers", n, wait.what, callers)
	p, err := wait.start()
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	steps := make([]*step, runSteps)
	if err := gauge.Each(workers, runSteps, func(i int) error {
		steps[i] = standing[i].of(wait)
		_, err := steps[i].run(p)
		return err
	}); err != nil {
		return nil, err
	}
	took := make([]float64, n)
	err = gauge.Each(callers, n, func(i int) error {
		t, err := steps[i%runSteps].run(p)
		took[i] = gauge.Milliseconds(t)
		return err
	})
	slices.Sort(took)
	return took, err
}
