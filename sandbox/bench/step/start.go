package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// starts is how often each process is started; the median counts.
const starts = 5

// start measures the time from starting a process to the answer of the first Run.
func (w *world) start(ctx context.Context) error {
	standing, err := w.standing(ctx)
	if err != nil {
		return err
	}
	gauge.Say("start to first answer, %d times each", starts)
	table := gauge.NewTable(fmt.Sprintf("start to first answer, with %d Rollouts\tmeasured\tof do-nothing\t", waitingSteps+waitingSteps/groupSize))
	idle := 0.0
	for _, wait := range []wait{w.nothing(), w.poll(), w.barrier()} {
		var took []float64
		for i := range starts {
			began := time.Now()
			p, err := wait.start()
			if err != nil {
				return err
			}
			_, err = standing[i].of(wait).run(p)
			took = append(took, gauge.Milliseconds(time.Since(began)))
			p.Kill()
			if err != nil {
				return err
			}
		}
		middle := gauge.Median(took)
		if idle == 0 {
			idle = middle
		}
		table.Row("%s\t%.0f ms\t%.2f\t", wait.what, middle, middle/idle)
	}
	table.Print()
	return nil
}
