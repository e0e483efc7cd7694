package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/pki"
)

const (
	regionCount = 5
	// spreadRollouts is how many Rollouts there are in each region and here.
	spreadRollouts = 100
	// processes is how many processes have their memory measured; the median counts.
	processes = 3
)

func spread(i int) string { return fmt.Sprintf("spread-%03d", i) }

// regions measures what Rollouts that wait for other clusters send to these and to their own
// API server, and what each cluster costs in memory.
func (w *world) regions(ctx context.Context) error {
	authority, err := pki.NewAuthority("regions", time.Now())
	if err != nil {
		return err
	}
	regions := make([]*region, regionCount)
	for i := range regions {
		if regions[i], err = w.newRegion(ctx, i, authority); err != nil {
			return err
		}
	}
	one, err := w.across(ctx, regions[:1])
	if err != nil {
		return err
	}
	all, err := w.across(ctx, regions)
	if err != nil {
		return err
	}
	steps, err := w.makeSpread(ctx, regions, all)
	if err != nil {
		return err
	}
	toRegions := func() (sum int) {
		for _, r := range regions {
			sum += r.all()
		}
		return sum
	}
	sent := func() int { return w.counter.all() + toRegions() }
	var memory [3]float64
	for i, wait := range []wait{w.nothing(), one, all} {
		if memory[i], err = residentWaiting(ctx, wait, steps, sent); err != nil {
			return err
		}
	}
	p, err := all.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := w.begin(ctx, p, steps, sent); err != nil {
		return err
	}
	here, there := w.counter.all(), toRegions()
	if _, err := w.waitAMinute(ctx, p, steps); err != nil {
		return err
	}
	here, there = w.counter.all()-here, toRegions()-there
	took, err := w.goOn(ctx, p, steps, regions)
	if err != nil {
		return err
	}
	table := gauge.NewTable(fmt.Sprintf("%d steps that wait for %d clusters\tmeasured\tbar", len(steps), regionCount))
	table.Row("requests a minute to the clusters while all wait (%d Runs)\t%s", callsEach*len(steps), gauge.Count(there, 0))
	table.Row("the same to their own API server\t%s", gauge.Count(here, 0))
	table.Row("from the last change there until each step, called all the time, goes on\t%.1f s\t", took.Seconds())
	table.Print()
	idle, ofOne, ofAll := memory[0], memory[1], memory[2]
	table = gauge.NewTable(fmt.Sprintf("memory of a registration with %d waiting steps\tmeasured\tof do-nothing\t", len(steps)))
	table.Row("that do nothing\t%.1f MB\t1.00\t", idle)
	table.Row("that wait for 1 cluster\t%.1f MB\t%.2f\t", ofOne, ofOne/idle)
	table.Row("that wait for %d clusters\t%.1f MB\t%.2f\t", regionCount, ofAll, ofAll/idle)
	table.Row("each cluster more, with %d Rollouts in it\t%.1f MB\t\t", spreadRollouts, (ofAll-ofOne)/(regionCount-1))
	table.Print()
	return nil
}

// across makes a preset for steps that wait for their Rollouts of the same name in some
// clusters.
func (w *world) across(ctx context.Context, regions []*region) (wait, error) {
	var clusters []map[string]string
	for _, r := range regions {
		clusters = append(clusters, map[string]string{"name": r.name, "secret": r.name})
	}
	text, err := json.Marshal(map[string]any{"defaults": map[string]any{"rollouts": map[string]any{"clusters": clusters}}})
	if err != nil {
		return wait{}, err
	}
	name := fmt.Sprintf("regions-%d", len(regions))
	return w.use(fmt.Sprintf("Rollouts in other clusters, %d", len(regions)), name), w.Create(ctx, preset(name, string(text)))
}

// makeSpread makes Rollouts that stand at the barrier here, and before it in each region. It
// returns their steps here.
func (w *world) makeSpread(ctx context.Context, regions []*region, wait wait) ([]*step, error) {
	gauge.Say("making %d Rollouts here and in each of %d clusters", spreadRollouts, len(regions))
	steps := make([]*step, spreadRollouts)
	err := gauge.Each(workers, spreadRollouts*(len(regions)+1), func(i int) (err error) {
		i, in := i%spreadRollouts, i/spreadRollouts
		if in < len(regions) {
			_, err = w.makeStanding(ctx, regions[in].name, spread(i), "spread", 0, wait)
			return err
		}
		steps[i], err = w.makeStanding(ctx, gauge.Namespace, spread(i), "spread", 1, wait)
		return err
	})
	return steps, err
}

// residentWaiting returns the memory in MB of a registration whose steps wait, the median of
// some processes.
func residentWaiting(ctx context.Context, wait wait, steps []*step, sent func() int) (float64, error) {
	gauge.Say("memory of %d steps: %s", len(steps), wait.what)
	var all []float64
	for range processes {
		p, err := wait.start()
		if err != nil {
			return 0, err
		}
		defer p.Kill()
		for range 2 + callsEach { // as often as in the measurement of requests
			if err := gauge.Each(workers, len(steps), func(i int) error {
				_, err := steps[i].of(wait).run(p)
				return err
			}); err != nil {
				return 0, err
			}
			if err := quiet(ctx, sent); err != nil {
				return 0, err
			}
		}
		mb, err := p.Resident()
		if err != nil {
			return 0, err
		}
		all = append(all, mb)
	}
	return gauge.Median(all), nil
}

// goOn lets all Rollouts of the regions come to the barrier, and returns how long it then
// takes until each step goes on: the watches that have waited so quietly see all of them.
func (w *world) goOn(ctx context.Context, p *process, steps []*step, regions []*region) (time.Duration, error) {
	gauge.Say("the Rollouts of each region come to the barrier")
	if err := gauge.Each(workers, len(steps)*len(regions), func(i int) error {
		_, err := w.rolloutsIn(regions[i/len(steps)].name).patchStatus(ctx, spread(i%len(steps)), map[string]any{"currentStepIndex": 1, "phase": "Progressing"})
		return err
	}); err != nil {
		return 0, err
	}
	changed := time.Now()
	waiting := steps
	err := gauge.Poll(ctx, 100*time.Millisecond, "each step goes on", func() (bool, error) {
		var still []*step
		for _, s := range waiting {
			phase, err := s.call(p)
			if err != nil {
				return false, err
			}
			if phase == types.PhaseRunning {
				still = append(still, s)
			}
		}
		waiting = still
		return len(waiting) == 0, nil
	})
	return time.Since(changed), err
}
