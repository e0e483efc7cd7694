package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	registrations = 10
	presets       = 100
)

// memory is the resident memory of registrations that no step has used, together, and that of
// one registration of which steps use many presets.
func (w *world) memory(ctx context.Context) error {
	gauge.Say("memory of %d idle registrations, and of one with %d presets", registrations, presets)
	kinds := []string{"http", "job", "rollouts", "resource"}
	own, err := w.residentTogether(func(i int) registration {
		kind := kinds[i%len(kinds)]
		return registration{"bench/" + kind, w.plugin, []string{kind}}
	})
	if err != nil {
		return err
	}
	idle, err := w.residentTogether(func(int) registration { return w.doNothing() })
	if err != nil {
		return err
	}
	used, err := w.residentWithPresets(ctx)
	if err != nil {
		return err
	}
	table := gauge.NewTable("memory\tmeasured\tdo-nothing\tratio\t")
	table.Row("%d idle registrations together\t%.0f MB\t%.0f MB\t%.2f\t", registrations, own, idle, own/idle)
	table.Row("one registration, after steps with %d presets\t%.0f MB\t\t\t", presets, used)
	table.Print()
	return nil
}

// residentTogether starts ten registrations, and returns their memory in MB. Each has a file
// of its own, as the controller downloads the program for each, so that no two of
// them share pages.
func (w *world) residentTogether(registered func(int) registration) (sum float64, err error) {
	var started []*process
	for i := range registrations {
		r := registered(i)
		copied := filepath.Join(w.dir, fmt.Sprintf("registration-%d", i))
		if err := exec.Command("cp", "--remove-destination", r.path, copied).Run(); err != nil {
			return 0, fmt.Errorf("copying %s: %w", r.path, err)
		}
		r.path = copied
		p, err := r.start()
		if err != nil {
			return 0, err
		}
		defer p.Kill()
		started = append(started, p)
	}
	for _, p := range started {
		mb, err := p.Resident()
		if err != nil {
			return 0, err
		}
		sum += mb
	}
	return sum, nil
}

// residentWithPresets returns the memory in MB of one registration after a step of each preset
// has begun.
func (w *world) residentWithPresets(ctx context.Context) (float64, error) {
	steps := make([]*step, presets)
	for i := range steps {
		name := fmt.Sprintf("preset-%03d", i)
		if err := w.Create(ctx, preset(name, fmt.Sprintf(`{"hosts": [%q], "locked": ["http"], "defaults": %s}`, strings.TrimPrefix(w.outside.url, "http://"), w.outside.config("/runs")))); err != nil {
			return 0, err
		}
		use := w.use(name, name)
		ro, err := typed(rollout(gauge.Namespace, name, name, "["+use.step("")+"]"))
		if err != nil {
			return 0, err
		}
		ro.UID = types.UID(name)
		steps[i] = &step{wait: use, rollout: ro}
	}
	p, err := w.every().start()
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	before := w.outside.started.Load()
	err = gauge.Poll(ctx, 100*time.Millisecond, "each preset is used", func() (bool, error) {
		err := gauge.Each(workers, len(steps), func(i int) error {
			_, err := steps[i].run(p)
			return err
		})
		return w.outside.started.Load()-before >= presets, err
	})
	if err != nil {
		return 0, err
	}
	return p.Resident()
}
