package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/gauge"
)

const registrations = 10

// memory is the resident memory of registrations that no step has used, together.
func (w *world) memory(_ context.Context) error {
	gauge.Say("memory of %d idle registrations", registrations)
	kinds := []registration{w.http(), w.job(), w.others()}
	own, err := w.residentTogether(func(i int) registration { return kinds[i%len(kinds)] })
	if err != nil {
		return err
	}
	idle, err := w.residentTogether(func(int) registration { return w.doNothing() })
	if err != nil {
		return err
	}
	table := gauge.NewTable("memory\tmeasured\tdo-nothing\tratio\t")
	table.Row("%d idle registrations together\t%.0f MB\t%.0f MB\t%.2f\t", registrations, own, idle, own/idle)
	sizes := make([]float64, 2)
	for i, path := range []string{w.plugin, w.idle} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		sizes[i] = float64(info.Size()) / 1e6
	}
	table.Row("the program\t%.1f MB\t%.1f MB\t%.2f\t", sizes[0], sizes[1], sizes[0]/sizes[1])
	table.Print()
	return nil
}

// residentTogether starts ten registrations, and returns their memory in MB. Each has a file
// of its own, as the controller downloads the program for each, so that no two of
// them share pages.
func (w *world) residentTogether(registered func(int) registration) (float64, error) {
	var started []*process
	for i := range registrations {
		r := registered(i)
		copied := filepath.Join(w.dir, fmt.Sprintf("registration-%d", i))
		if err := copyProgram(r.path, copied); err != nil {
			return 0, err
		}
		r.path = copied
		p, err := r.start()
		if err != nil {
			return 0, err
		}
		defer p.Kill()
		started = append(started, p)
	}
	sum := 0.0
	for _, p := range started {
		mb, err := p.Resident()
		if err != nil {
			return 0, err
		}
		sum += mb
	}
	return sum, nil
}

func copyProgram(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		_ = target.Close()
		return err
	}
	return target.Close()
}
