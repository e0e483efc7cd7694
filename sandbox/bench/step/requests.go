package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	// callEvery is how often the controller calls a step with the default interval of 15 s,
	// to which it adds 5 s.
	callEvery = 20 * time.Second
	callsEach = int(time.Minute / callEvery)
)

// requests measures the requests that steps waiting at a barrier make in a minute
// if they are called as often as the controller calls them.
func (w *world) requests(ctx context.Context) error {
	standing, err := w.standing(ctx)
	if err != nil {
		return err
	}
	p, err := w.barrier().start()
	if err != nil {
		return err
	}
	defer p.Kill()
	steps := make([]*step, len(standing))
	for i, s := range standing {
		steps[i] = s.of(s.wait)
	}
	sent := func() int { return w.counter.of(pluginAgent) }
	if err := w.begin(ctx, p, steps, sent); err != nil {
		return err
	}
	before := sent()
	took, err := w.waitAMinute(ctx, p, steps)
	if err != nil {
		return err
	}
	more := sent() - before
	mb, err := p.Resident()
	if err != nil {
		return err
	}
	table := gauge.NewTable(fmt.Sprintf("%d steps at barriers\tmeasured\tbar", len(steps)))
	table.Row("requests a minute while all wait (%d Runs)\t%s", len(took), gauge.Count(more, 0))
	table.Row("Run in that minute\tp50 %.1f ms, p99 %.1f ms\t", gauge.Quantile(took, 0.5), gauge.Quantile(took, 0.99))
	table.Row("resident memory of the plugin\t%.1f MB\t", mb)
	table.Print()
	return nil
}

// longestBegin is how often steps are called until they wait. On a quiet machine twice is
// enough: where many begin at once, the first call of some is answered before they have looked.
const longestBegin = 6

// begin calls the steps until all wait: until a call of each makes them send nothing.
func (w *world) begin(ctx context.Context, p *process, steps []*step, sent func() int) error {
	gauge.Say("%d steps begin: %s", len(steps), steps[0].what)
	for range longestBegin {
		before := sent()
		if _, err := w.callAll(ctx, p, steps); err != nil {
			return err
		}
		// Events are written in the background.
		if err := quiet(ctx, sent); err != nil || sent() == before {
			return err
		}
	}
	return nil // the measurement shows what they send
}

// quiet waits until a count of requests has not grown for a second.
func quiet(ctx context.Context, sent func() int) error {
	last, since := -1, time.Now()
	return gauge.Poll(ctx, 100*time.Millisecond, "the plugin makes no requests", func() (bool, error) {
		if now := sent(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second, nil
	})
}

// waitAMinute calls the steps for a minute, and returns how long the calls took in
// milliseconds, sorted.
func (w *world) waitAMinute(ctx context.Context, p *process, steps []*step) (took []float64, err error) {
	gauge.Say("%d steps wait for a minute", len(steps))
	for range callsEach {
		more, err := w.callAll(ctx, p, steps)
		if err != nil {
			return nil, err
		}
		took = append(took, more...)
	}
	slices.Sort(took)
	return took, nil
}

// callAll calls each step once within callEvery, one after the other, and stores
// their answers. It returns how long the calls took in milliseconds.
func (w *world) callAll(ctx context.Context, p *process, steps []*step) ([]float64, error) {
	var calls sync.WaitGroup
	took, failures := make([]float64, len(steps)), make([]error, len(steps))
	began := time.Now()
	for i, s := range steps {
		if err := gauge.Pause(ctx, time.Until(began.Add(callEvery*time.Duration(i)/time.Duration(len(steps))))); err != nil {
			return nil, err
		}
		calls.Go(func() {
			t, err := s.run(p)
			took[i] = gauge.Milliseconds(t)
			if err == nil {
				err = s.store(ctx, w)
			}
			failures[i] = err
		})
	}
	calls.Wait()
	return took, errors.Join(failures...)
}
