package main

import (
	"context"
	"fmt"
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
	table := gauge.NewTable(fmt.Sprintf("Run of a waiting step\tone caller: p50\tp99\tof do-nothing\t%d callers: p50\tp99\tlongest\tof do-nothing\t", workers))
	row := func(what string, alone, together, aloneBeside, togetherBeside []float64) {
		p50, p99 := gauge.Quantile(alone, 0.5), gauge.Quantile(alone, 0.99)
		row := fmt.Sprintf("%s\t%.2f ms\t%.2f ms\t%.2f\t", what, p50, p99, p99/gauge.Quantile(aloneBeside, 0.99))
		p50, p99 = gauge.Quantile(together, 0.5), gauge.Quantile(together, 0.99)
		table.Row("%s%.1f ms\t%.1f ms\t%.0f ms\t%.2f\t", row, p50, p99, together[len(together)-1], p99/gauge.Quantile(togetherBeside, 0.99))
	}
	var alone, together []float64
	for _, wait := range []wait{w.nothing(), w.poll(), w.barrier()} {
		a, err := timeRuns(standing, wait, 1, runsAlone)
		if err != nil {
			return err
		}
		t, err := timeRuns(standing, wait, workers, runsTogether)
		if err != nil {
			return err
		}
		if alone == nil {
			alone, together = a, t
		}
		row(wait.what, a, t, alone, together)
	}
	// One poll of each step: the plugin waits for an answer for a second at most.
	hung, err := timeRuns(standing, w.slowPoll(), workers, runSteps)
	if err != nil {
		return err
	}
	table.Row("%s\t\t\t\t%.1f ms\t%.1f ms\t%.0f ms\t%.2f\t", w.slowPoll().what, gauge.Quantile(hung, 0.5), gauge.Quantile(hung, 0.99), hung[len(hung)-1], gauge.Quantile(hung, 0.99)/gauge.Quantile(together, 0.99))
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
	var steps []*step
	for _, s := range standing[:runSteps] {
		steps = append(steps, s.of(wait))
	}
	took := make([]float64, n)
	if err := gauge.Each(workers, 0, len(steps), func(i int) error {
		_, err := steps[i].run(p)
		return err
	}); err != nil {
		return nil, err
	}
	if err := gauge.Each(callers, 0, n, func(i int) error {
		t, err := steps[i%len(steps)].run(p)
		took[i] = gauge.Milliseconds(t)
		return err
	}); err != nil {
		return nil, err
	}
	slices.Sort(took)
	return took, nil
}
