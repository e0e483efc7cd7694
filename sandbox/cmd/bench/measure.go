package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/gauge"
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

func say(format string, args ...any) { _, _ = fmt.Fprintf(os.Stderr, format+"\n", args...) }

func measure(ctx context.Context, b binaries, crds ...string) error {
	a, err := connect(ctx, crds...)
	if err != nil {
		return err
	}
	say("bench: making %d HTTPScaledObjects and Rollouts", objects)
	if err := a.create(ctx, 0, objects); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	row := func(cells string, args ...any) { _, _ = fmt.Fprintf(table, cells+"\n", args...) }
	row("what\tmeasured\tbeside\tratio\tbar")
	for _, part := range []func(context.Context, *api, binaries, func(string, ...any)) error{startUp, unchanged, waves, memory, size} {
		if err := part(ctx, a, b, row); err != nil {
			return err
		}
	}
	return table.Flush()
}

// startUp is the time from starting the process to its first answered call.
func startUp(_ context.Context, _ *api, b binaries, row func(string, ...any)) error {
	say("bench: start to first answered call")
	first := func(path string) (time.Duration, error) {
		var took []time.Duration
		for range 5 {
			began := time.Now()
			p, err := start(path)
			if err != nil {
				return 0, err
			}
			err = p.reconcile(0, 0)
			took = append(took, time.Since(began))
			p.client.Kill()
			if err != nil {
				return 0, err
			}
		}
		slices.Sort(took)
		return took[len(took)/2], nil
	}
	own, err := first(b.plugin)
	if err != nil {
		return err
	}
	idle, err := first(b.idle)
	if err != nil {
		return err
	}
	row("start to first answered call (%d objects)\t%d ms\tdo-nothing %d ms\t%.2f\t", objects, own.Milliseconds(), idle.Milliseconds(), float64(own)/float64(idle))
	return nil
}

// unchanged is the rate of reconciles (SetWeight and VerifyWeight) that find
// everything as it should be.
func unchanged(ctx context.Context, a *api, b binaries, row func(string, ...any)) error {
	say("bench: unchanged reconciles, %d callers, %d rounds of %s a build", callers, rounds, unchangedTime)
	processes := map[string]*process{}
	rates := map[string][]float64{}
	requests := 0
	for _, path := range []string{b.plugin, b.idle} {
		p, err := start(path)
		if err != nil {
			return err
		}
		defer p.client.Kill()
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
	own, idle := gauge.Median(rates[b.plugin]), gauge.Median(rates[b.idle])
	row("unchanged reconciles\t%.0f/s\tdo-nothing %.0f/s\t%.2f\tat least 0.50 %s", own, idle, own/idle, gauge.Mark(own/idle >= 0.5))
	row("API requests in all of them\t%d\t\t\t0 %s", requests, gauge.Mark(requests == 0))
	return nil
}

// waves is the rate of changes: every object gets another weight.
func waves(ctx context.Context, a *api, b binaries, row func(string, ...any)) error {
	say("bench: a wave of %d changes, and %d with client-go's default rate limit", objects, throttledWave)
	var direct, own []float64
	requests := 0
	p, err := start(b.plugin)
	if err != nil {
		return err
	}
	defer p.client.Kill()
	if err := gauge.Each(callers, 0, objects, func(i int) error { return p.reconcile(i, 20) }); err != nil {
		return err
	}
	for round := range rounds {
		began := time.Now()
		if err := a.patch(ctx, objects, strconv.Itoa(round)); err != nil {
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
	slow, err := start(b.throttled)
	if err != nil {
		return err
	}
	defer slow.client.Kill()
	if err := slow.reconcile(0, 32); err != nil {
		return err
	}
	began := time.Now()
	if err := gauge.Each(callers, 0, throttledWave, func(i int) error { return slow.reconcile(i, 40) }); err != nil {
		return err
	}
	throttled := throttledWave / time.Since(began).Seconds()
	row("changes\t%.0f/s\tbare patches by a client %.0f/s\t%.2f\t", gauge.Median(own), gauge.Median(direct), gauge.Median(own)/gauge.Median(direct))
	row("\t\tthrottled as client-go does %.0f/s\t%.0f\t", throttled, gauge.Median(own)/throttled)
	row("API requests a change\t%.3f\t\t\t1 %s", float64(requests)/float64(rounds*objects), gauge.Mark(requests == rounds*objects))
	return nil
}

// memory is the resident memory with many objects in the watch, after a
// reconcile of a tenth of them.
func memory(ctx context.Context, a *api, b binaries, row func(string, ...any)) error {
	say("bench: memory with %d HTTPScaledObjects and Rollouts", manyObjects)
	idle, err := start(b.idle)
	if err != nil {
		return err
	}
	defer idle.client.Kill()
	if err := a.create(ctx, objects, manyObjects); err != nil {
		return err
	}
	p, err := start(b.plugin)
	if err != nil {
		return err
	}
	defer p.client.Kill()
	if err := gauge.Each(callers, 0, objects, func(i int) error { return errors.Join(p.reconcile(i, 50), idle.reconcile(i, 50)) }); err != nil {
		return err
	}
	own, err := p.memory()
	if err != nil {
		return err
	}
	base, err := idle.memory()
	if err != nil {
		return err
	}
	row("resident memory, %d objects and Rollouts watched\t%.1f MB\tdo-nothing %.1f MB\t%.2f\tat most 45 MB %s", manyObjects, own, base, own/base, gauge.Mark(own <= 45))
	return nil
}

func size(_ context.Context, _ *api, b binaries, row func(string, ...any)) error {
	own, err := os.Stat(b.plugin)
	if err != nil {
		return err
	}
	idle, err := os.Stat(b.idle)
	if err != nil {
		return err
	}
	row("binary, stripped\t%.1f MB\tdo-nothing %.1f MB\t%.2f\tat most 28 MB %s", float64(own.Size())/1e6, float64(idle.Size())/1e6, float64(own.Size())/float64(idle.Size()), gauge.Mark(own.Size() <= 28e6))
	return nil
}
