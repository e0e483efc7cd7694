package main

import (
	"context"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	objects     = 500
	manyObjects = 5000
	// unchangedTime is how long each round of unchanged reconciles lasts, and
	// rounds how many there are; the builds take turns, the median counts.
	unchangedTime = 3 * time.Second
	rounds        = 3
	// slowChanges is how many changes a slow build makes: at 5 requests a second, all of
	// them would take too long to watch.
	slowChanges = 60
	// starts is how often each build is started; the median counts.
	starts = 5
	// mostSize is the bar for a plugin's size, in MB: the controller downloads it at each start.
	mostSize = 28
	// rateBar is the least ratio of unchanged reconciles to those that do nothing.
	rateBar = 0.5
)

// measure measures a subject, and leaves the cluster as it was.
func (b *bench) measure(ctx context.Context) error {
	gauge.Say("%s: making %d %s", b.name, objects, b.what)
	if err := b.make(ctx, 0, objects); err != nil {
		return err
	}
	table := gauge.NewTable(b.name + "\tmeasured\tbar")
	for _, measure := range []func(context.Context, *gauge.Table) error{b.startUp, b.unchanged, b.changes, b.memory} {
		if err := measure(ctx, table); err != nil {
			return err
		}
	}
	table.Print()
	if err := b.all().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	return b.Resource(v1alpha1.RolloutGVR).Namespace(gauge.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// startUp measures the time from the start of the process to its first answered call, and the
// size of the program.
func (b *bench) startUp(_ context.Context, table *gauge.Table) error {
	gauge.Say("start to first answered call, %d starts a build", starts)
	var took [2]float64
	for i, path := range []string{b.path, b.idle} {
		var all []float64
		for range starts {
			began := time.Now()
			p, err := b.start(path)
			if err != nil {
				return err
			}
			err = p.reconcile(0, 0)
			all = append(all, float64(time.Since(began).Milliseconds()))
			p.Kill()
			if err != nil {
				return err
			}
		}
		took[i] = gauge.Median(all)
	}
	table.Row("start to first answered call in ms, with %d %s, beside do-nothing's %.0f ms\t%.0f\t", objects, b.what, took[1], took[0])
	program, err := os.Stat(b.path)
	if err != nil {
		return err
	}
	table.Row("size of the program in MB\t%s", gauge.AtMost(float64(program.Size())/1e6, mostSize))
	return nil
}

// unchanged measures the rate of reconciles (SetWeight and VerifyWeight) that have
// nothing to change.
func (b *bench) unchanged(ctx context.Context, table *gauge.Table) error {
	gauge.Say("unchanged reconciles, %d callers, %d rounds of %s a build", callers, rounds, unchangedTime)
	builds := make([]*process, 2)
	for i, path := range []string{b.path, b.idle} {
		p, err := b.start(path)
		if err != nil {
			return err
		}
		defer p.Kill()
		if err := p.reconcileFirst(objects, 20); err != nil {
			return err
		}
		builds[i] = p
	}
	var rates [2][]float64
	before, err := b.Requests(ctx, counted)
	if err != nil {
		return err
	}
	for range rounds {
		for i, p := range builds {
			reconciles, began := 0, time.Now()
			for time.Since(began) < unchangedTime {
				if err := p.reconcileFirst(objects, 20); err != nil {
					return err
				}
				reconciles += objects
			}
			rates[i] = append(rates[i], float64(reconciles)/time.Since(began).Seconds())
		}
	}
	after, err := b.Requests(ctx, counted)
	if err != nil {
		return err
	}
	own, idle := gauge.Median(rates[0]), gauge.Median(rates[1])
	table.Row("unchanged reconciles, %.0f/s, beside do-nothing's %.0f/s\t%s", own, idle, gauge.AtLeast(own/idle, rateBar))
	table.Row("API requests in all of them\t%s", gauge.Count(after-before, 0))
	return nil
}

// changes measures the rate of changes: every object gets another weight, or some of them by
// the slow build.
func (b *bench) changes(ctx context.Context, table *gauge.Table) error {
	weights := []int32{30, 31, 32}
	changes := len(weights) * objects
	gauge.Say("%d changes, and %d by a build that client-go throttles", changes, slowChanges)
	own, requests, err := b.wave(ctx, b.path, objects, 20, weights...)
	if err != nil {
		return err
	}
	slow, slowRequests, err := b.wave(ctx, b.slow, slowChanges, weights[len(weights)-1], 40)
	if err != nil {
		return err
	}
	table.Row("API requests of %d changes, %.0f/s\t%s", changes, own, gauge.Count(requests, changes))
	table.Row("changes, beside %.1f/s with %.1f API requests each, %s: ratio\t%.0f\t", slow, float64(slowRequests)/slowChanges, b.slowly, own/slow)
	return nil
}

// wave has a build give the first n objects, whose weight is the given one, other weights, and
// returns the rate of these changes and the number of API requests.
func (b *bench) wave(ctx context.Context, path string, n int, weight int32, others ...int32) (rate float64, requests int, err error) {
	p, err := b.start(path)
	if err != nil {
		return 0, 0, err
	}
	defer p.Kill() // it would revert the changes of another build
	if err := p.reconcileFirst(n, weight); err != nil {
		return 0, 0, err
	}
	before, err := b.Requests(ctx, counted)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	for _, other := range others {
		if err := p.reconcileFirst(n, other); err != nil {
			return 0, 0, err
		}
	}
	rate = float64(n*len(others)) / time.Since(began).Seconds()
	after, err := b.Requests(ctx, counted)
	return rate, after - before, err
}

// memory measures the resident memory with many objects in the watch, after a
// reconcile of a tenth of them.
func (b *bench) memory(ctx context.Context, table *gauge.Table) error {
	gauge.Say("memory with %d %s", manyObjects, b.what)
	if err := b.make(ctx, objects, manyObjects); err != nil {
		return err
	}
	p, err := b.start(b.path)
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := p.reconcileFirst(objects, 50); err != nil {
		return err
	}
	mb, err := p.Resident()
	if err != nil {
		return err
	}
	table.Row("resident memory in MB, %d %s and %d Rollouts watched\t%s", manyObjects, b.what, b.rollouts, gauge.AtMost(mb, b.mostMemory))
	return nil
}
