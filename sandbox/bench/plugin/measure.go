package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	objects     = 500
	manyObjects = 5000
	// unchangedTime is how long each round of unchanged reconciles lasts, and
	// rounds how many there are; the builds take turns, the median counts.
	unchangedTime = 3 * time.Second
	rounds        = 3
	// throttledWave is how many changes the throttled build makes: at 5 a
	// second, all of them would take too long to watch.
	throttledWave = 60
)

// part measures one thing about a subject, and reports each figure in a row.
type part func(context.Context, *api, subject, func(string, ...any)) error

func measure(ctx context.Context, subjects []subject, crds ...string) error {
	a, err := connect(ctx, crds...)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if err := measureOne(ctx, a, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func measureOne(ctx context.Context, a *api, s subject) error {
	gauge.Say("%s: making %d %s", s.name, objects, s.what)
	if err := a.create(ctx, s, 0, objects); err != nil {
		return err
	}
	if err := a.report(ctx, s, objects); err != nil {
		return err
	}
	table := gauge.NewTable(s.name + "\tmeasured\tbeside\tratio\tbar")
	for _, measure := range []part{startUp, unchanged, waves, memory, size} {
		if err := measure(ctx, a, s, table.Row); err != nil {
			return err
		}
	}
	table.Print()
	return a.remove(ctx, s)
}

// startUp measures the time from starting the process to its first answered call.
func startUp(_ context.Context, _ *api, s subject, row func(string, ...any)) error {
	gauge.Say("start to first answered call")
	first := func(path string) (time.Duration, error) {
		var took []time.Duration
		for range 5 {
			began := time.Now()
			p, err := s.start(path)
			if err != nil {
				return 0, err
			}
			err = p.reconcile(0, 0)
			took = append(took, time.Since(began))
			p.Kill()
			if err != nil {
				return 0, err
			}
		}
		slices.Sort(took)
		return took[len(took)/2], nil
	}
	own, err := first(s.plugin)
	if err != nil {
		return err
	}
	idle, err := first(s.idle)
	if err != nil {
		return err
	}
	row("start to first answered call (%d objects)\t%d ms\tdo-nothing %d ms\t%.2f\t", objects, own.Milliseconds(), idle.Milliseconds(), float64(own)/float64(idle))
	return nil
}

// unchanged measures the rate of reconciles (SetWeight and VerifyWeight) that have
// nothing to change.
func unchanged(ctx context.Context, a *api, s subject, row func(string, ...any)) error {
	gauge.Say("unchanged reconciles, %d callers, %d rounds of %s a build", callers, rounds, unchangedTime)
	processes := map[string]*process{}
	rates := map[string][]float64{}
	requests := 0
	for _, path := range []string{s.plugin, s.idle} {
		p, err := s.start(path)
		if err != nil {
			return err
		}
		defer p.Kill()
		processes[path] = p
		if err := gauge.Each(callers, 0, objects, func(i int) error { return p.reconcile(i, 20) }); err != nil {
			return err
		}
	}
	for range rounds {
		for path, p := range processes {
			before, err := a.requests(ctx)
			if err != nil {
				return err
			}
			began, count := time.Now(), 0
			for time.Since(began) < unchangedTime {
				if err := gauge.Each(callers, 0, objects, func(i int) error { return p.reconcile(i, 20) }); err != nil {
					return err
				}
				count += objects
			}
			rates[path] = append(rates[path], float64(count)/time.Since(began).Seconds())
			after, err := a.requests(ctx)
			if err != nil {
				return err
			}
			requests += after - before
		}
	}
	own, idle := gauge.Median(rates[s.plugin]), gauge.Median(rates[s.idle])
	row("unchanged reconciles\t%.0f/s\tdo-nothing %.0f/s\t%.2f\tat least 0.50 %s", own, idle, own/idle, gauge.Mark(own/idle >= 0.5))
	row("API requests in all of them\t%d\t\t\t0 %s", requests, gauge.Mark(requests == 0))
	return nil
}

// waves measures the rate of changes: every object gets another weight.
func waves(ctx context.Context, a *api, s subject, row func(string, ...any)) error {
	gauge.Say("a wave of %d changes, and %d of the build with client-go's default rate limit", objects, throttledWave)
	var direct, own []float64
	requests := 0
	p, err := s.start(s.plugin)
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := gauge.Each(callers, 0, objects, func(i int) error { return p.reconcile(i, 20) }); err != nil {
		return err
	}
	for round := range rounds {
		began := time.Now()
		if err := a.patch(ctx, s, objects, strconv.Itoa(round)); err != nil {
			return err
		}
		direct = append(direct, objects/time.Since(began).Seconds())
		before, err := a.requests(ctx)
		if err != nil {
			return err
		}
		began = time.Now()
		if err := gauge.Each(callers, 0, objects, func(i int) error { return p.reconcile(i, int32(30+round)) }); err != nil {
			return err
		}
		own = append(own, objects/time.Since(began).Seconds())
		after, err := a.requests(ctx)
		if err != nil {
			return err
		}
		requests += after - before
	}
	p.Kill() // it would revert the changes of the other build
	slow, err := s.start(s.slow)
	if err != nil {
		return err
	}
	defer slow.Kill()
	if err := slow.reconcile(0, 32); err != nil {
		return err
	}
	before, err := a.requests(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := gauge.Each(callers, 0, throttledWave, func(i int) error { return slow.reconcile(i, 40) }); err != nil {
		return err
	}
	throttled := throttledWave / time.Since(began).Seconds()
	after, err := a.requests(ctx)
	if err != nil {
		return err
	}
	row("changes\t%.0f/s\tbare patches by a client %.0f/s\t%.2f\t", gauge.Median(own), gauge.Median(direct), gauge.Median(own)/gauge.Median(direct))
	row("\t\t%s %.1f/s\t%.0f\t", s.slowly, throttled, gauge.Median(own)/throttled)
	row("API requests a change\t%.3f\t%s %.3f\t\t1 %s", float64(requests)/float64(rounds*objects), s.slowly, float64(after-before)/throttledWave, gauge.Mark(requests == rounds*objects))
	return nil
}

// memory measures the resident memory with many objects in the watch, after a
// reconcile of a tenth of them.
func memory(ctx context.Context, a *api, s subject, row func(string, ...any)) error {
	gauge.Say("memory with %d %s", manyObjects, s.what)
	idle, err := s.start(s.idle)
	if err != nil {
		return err
	}
	defer idle.Kill()
	if err := a.create(ctx, s, objects, manyObjects); err != nil {
		return err
	}
	p, err := s.start(s.plugin)
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := gauge.Each(callers, 0, objects, func(i int) error { return errors.Join(p.reconcile(i, 50), idle.reconcile(i, 50)) }); err != nil {
		return err
	}
	own, err := p.Resident()
	if err != nil {
		return err
	}
	base, err := idle.Resident()
	if err != nil {
		return err
	}
	row("resident memory, %d %s and %d Rollouts watched\t%.1f MB\tdo-nothing %.1f MB\t%.2f\tat most %.0f MB %s", manyObjects, s.what, s.rollouts, own, base, own/base, s.mostMemory, gauge.Mark(own <= s.mostMemory))
	return nil
}

func size(_ context.Context, _ *api, s subject, row func(string, ...any)) error {
	own, err := os.Stat(s.plugin)
	if err != nil {
		return err
	}
	idle, err := os.Stat(s.idle)
	if err != nil {
		return err
	}
	row("binary, stripped\t%.1f MB\tdo-nothing %.1f MB\t%.2f\tat most %.0f MB %s", float64(own.Size())/1e6, float64(idle.Size())/1e6, float64(own.Size())/float64(idle.Size()), s.mostSize, gauge.Mark(float64(own.Size()) <= s.mostSize*1e6))
	return nil
}
