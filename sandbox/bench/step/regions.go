package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
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
func (w *world) regions(ctx context.Context) (err error) {
	var regions []*region
	defer func() {
		for _, r := range regions {
			err = errors.Join(err, r.Close())
		}
	}()
	authority, err := pki.NewAuthority("regions", time.Now())
	if err != nil {
		return err
	}
	for i := range regionCount {
		r, err := w.newRegion(ctx, i, authority)
		if err != nil {
			return err
		}
		regions = append(regions, r)
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

	requests := func() int { return w.counter.all() + requestsTo(regions) }
	memory := make([]float64, 3)
	for i, wait := range []wait{w.nothing(), one, all} {
		if memory[i], err = w.residentWaiting(ctx, wait, steps, requests); err != nil {
			return err
		}
	}

	p, err := all.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	here, there := w.counter.all(), requestsTo(regions)
	gauge.Say("%d steps begin to wait for %d clusters", len(steps), regionCount)
	for range 2 { // the first call of some is answered before they have looked
		if _, err := w.callAll(ctx, p, steps); err != nil {
			return err
		}
	}
	if _, err := quiet(ctx, requests); err != nil {
		return err
	}
	begunHere, begunThere := w.counter.all(), requestsTo(regions)
	gauge.Say("%d steps wait for a minute", len(steps))
	for range callsEach {
		if _, err := w.callAll(ctx, p, steps); err != nil {
			return err
		}
	}
	minuteHere, minuteThere := w.counter.all()-begunHere, requestsTo(regions)-begunThere
	gauge.Say("the Rollouts of each region come to the barrier")
	took, err := w.goOn(ctx, p, steps, regions)
	if err != nil {
		return err
	}

	table := gauge.NewTable(fmt.Sprintf("%d steps that wait for %d clusters\tmeasured\tbar", len(steps), regionCount))
	table.Row("requests of their beginnings to the clusters, a cluster\t%.1f\t", float64(begunThere-there)/regionCount)
	table.Row("the same to their own API server, a step\t%.2f\t", float64(begunHere-here)/float64(len(steps)))
	table.Row("requests a minute to the clusters while all wait (%d Runs)\t%d\t0 %s", callsEach*len(steps), minuteThere, gauge.Mark(minuteThere == 0))
	table.Row("the same to their own API server\t%d\t0 %s", minuteHere, gauge.Mark(minuteHere == 0))
	table.Row("from the last change there until each step, called all the time, goes on\t%.1f s\t", took.Seconds())
	table.Print()
	idle, ofOne, ofAll := memory[0], memory[1], memory[2]
	more := (ofAll - ofOne) / (regionCount - 1)
	table = gauge.NewTable(fmt.Sprintf("memory of a registration with %d waiting steps\tmeasured\tof do-nothing\t", len(steps)))
	table.Row("that do nothing\t%.1f MB\t1.00\t", idle)
	table.Row("that wait for 1 cluster\t%.1f MB\t%.2f\t", ofOne, ofOne/idle)
	table.Row("that wait for %d clusters\t%.1f MB\t%.2f\t", regionCount, ofAll, ofAll/idle)
	table.Row("each cluster more, with %d Rollouts in it\t%.1f MB\t%.2f\t", spreadRollouts, more, more/idle)
	table.Print()
	return nil
}

// across makes a preset for steps that wait for their Rollouts of the same name in some
// clusters.
func (w *world) across(ctx context.Context, regions []*region) (wait, error) {
	preset := fmt.Sprintf("regions-%d", len(regions))
	var clusters []map[string]string
	for _, r := range regions {
		clusters = append(clusters, map[string]string{"name": r.name, "secret": r.name})
	}
	text, err := json.Marshal(map[string]any{"defaults": map[string]any{"rollouts": map[string]any{"clusters": clusters}}})
	if err != nil {
		return wait{}, err
	}
	_, err = w.client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(gauge.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": preset, "labels": map[string]any{"rollouts.kedify.io/step-preset": "true"}},
		"data":     map[string]any{"preset.yaml": string(text)},
	}}, metav1.CreateOptions{})
	registered := registration{"kedify/step", w.plugin, []string{"--presets-namespace=" + gauge.Namespace, "--secrets-namespace=" + gauge.Namespace, "--allow-host=" + cluster.NodeIP.String()}}
	return wait{fmt.Sprintf("Rollouts in other clusters, %d", len(regions)), registered, func(string) json.RawMessage { return fmt.Appendf(nil, `{"use": %q}`, preset) }}, err
}

// makeSpread makes Rollouts that stand at the barrier here, and before it in each region. It
// returns their steps here.
func (w *world) makeSpread(ctx context.Context, regions []*region, wait wait) ([]*step, error) {
	gauge.Say("making %d Rollouts here and in each of %d clusters", spreadRollouts, len(regions))
	steps := make([]*step, spreadRollouts)
	err := gauge.Each(workers, 0, spreadRollouts*(len(regions)+1), func(i int) error {
		name, in := spread(i%spreadRollouts), i/spreadRollouts
		if in < len(regions) {
			_, err := w.makeStanding(ctx, regions[in].name, name, "spread", 0, wait)
			return err
		}
		ro, err := w.makeStanding(ctx, gauge.Namespace, name, "spread", 1, wait)
		steps[i%spreadRollouts] = &step{wait: wait, rollout: ro, group: "spread"}
		return err
	})
	return steps, err
}

func requestsTo(regions []*region) int {
	sum := 0
	for _, r := range regions {
		sum += r.all()
	}
	return sum
}

// residentWaiting returns the memory in MB of a registration whose steps wait, the median of
// some processes.
func (w *world) residentWaiting(ctx context.Context, wait wait, steps []*step, requests func() int) (float64, error) {
	gauge.Say("memory of %d steps: %s", len(steps), wait.what)
	var all []float64
	for range processes {
		p, err := wait.start()
		if err != nil {
			return 0, err
		}
		defer p.Kill()
		for range 2 + callsEach { // as often as in the measurement of requests
			if err := gauge.Each(workers, 0, len(steps), func(i int) error {
				_, err := steps[i].of(wait).run(p)
				return err
			}); err != nil {
				return 0, err
			}
			if _, err := quiet(ctx, requests); err != nil {
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
	if err := gauge.Each(workers, 0, len(steps)*len(regions), func(i int) error {
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
			result, err := s.call(p)
			switch {
			case err != nil:
				return false, err
			case result.Phase == types.PhaseRunning:
				still = append(still, s)
			case result.Phase != types.PhaseSuccessful:
				return false, fmt.Errorf("%s of Rollout %s is %s: %s", s.what, s.rollout.Name, result.Phase, result.Message)
			}
		}
		waiting = still
		return len(waiting) == 0, nil
	})
	return time.Since(changed), err
}
