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
	requestsBefore, watchesBefore := w.counter.of(pluginAgent)
	gauge.Say("%d steps come to a barrier", len(steps))
	// Where many begin at once, the first call of some is answered before they have looked.
	for range 2 {
		if _, err := w.callAll(ctx, p, steps); err != nil {
			return err
		}
	}
	begun, err := w.settled(ctx)
	if err != nil {
		return err
	}
	gauge.Say("%d steps wait there for a minute", len(steps))
	var took []float64
	for range callsEach {
		more, err := w.callAll(ctx, p, steps)
		if err != nil {
			return err
		}
		took = append(took, more...)
	}
	waited, watches := w.counter.of(pluginAgent)
	slices.Sort(took)
	mb, err := p.Resident()
	if err != nil {
		return err
	}
	table := gauge.NewTable(fmt.Sprintf("%d steps at barriers\tmeasured\tbar", len(steps)))
	table.Row("requests of their beginnings, a step\t%.3f\t", float64(begun-requestsBefore)/float64(len(steps)))
	table.Row("requests a minute while all wait (%d Runs)\t%d\t0 %s", len(took), waited-begun, gauge.Mark(waited == begun))
	table.Row("watches begun\t%d\t", watches-watchesBefore)
	table.Row("Run in that minute\tp50 %.1f ms, p99 %.1f ms, longest %.0f ms\t", gauge.Quantile(took, 0.5), gauge.Quantile(took, 0.99), took[len(took)-1])
	table.Row("resident memory of the plugin\t%.1f MB\t", mb)
	table.Print()
	return nil
}

// settled waits until the plugin has made no request for a second, as Events are written in
// the background, and returns how many it has made.
func (w *world) settled(ctx context.Context) (int, error) {
	return quiet(ctx, func() int { requests, _ := w.counter.of(pluginAgent); return requests })
}

// quiet waits until a count of requests has not grown for a second, and returns it.
func quiet(ctx context.Context, count func() int) (int, error) {
	last, since := -1, time.Now()
	err := gauge.Poll(ctx, 100*time.Millisecond, "the plugin makes no requests", func() (bool, error) {
		if now := count(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second, nil
	})
	return last, err
}

// callAll calls each step once within callEvery, one after the other, and stores
// their answers. It returns how long the calls took in milliseconds.
func (w *world) callAll(ctx context.Context, p *process, steps []*step) ([]float64, error) {
	var calls sync.WaitGroup
	took, failures := make([]float64, len(steps)), make([]error, len(steps))
	began := time.Now()
	for i, s := range steps {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(began.Add(callEvery * time.Duration(i) / time.Duration(len(steps))))):
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
