package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// trial is one mutation as it is tried.
type trial struct {
	mutation
	// took is the time of builds and tests, without the time that end-to-end tests wait
	// for their turn.
	took time.Duration
	// programs is where the programs with the mutation are, for the end-to-end
	// tests; empty when the mutation has none.
	programs string
	// reason says why the mutation cannot be tried; missed and silent are the tests
	// that passed, and those that did not run.
	reason         string
	missed, silent []string
}

// breakTree makes a mutation, runs its tests but the end-to-end tests, builds the
// programs for these, and restores the tree.
func (a *attempt) breakTree(ctx context.Context, t *trial) (err error) {
	begun := time.Now()
	defer func() { t.took += time.Since(begun) }()
	original, mutated, err := t.apply(a.tree)
	if err != nil {
		return err
	}
	file := filepath.Join(a.tree, t.File)
	if err := errors.Join(os.RemoveAll(a.log(t.Name)), os.WriteFile(file, mutated, 0o644)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.WriteFile(file, original, 0o644)) }()
	for _, directory := range t.packages() {
		if isEndToEnd(directory) {
			continue
		}
		if err := a.demand(ctx, t, directory); err != nil || t.reason != "" {
			return err
		}
	}
	if len(t.endToEnd()) > 0 {
		t.programs, err = a.build(ctx, t.Name)
		if errors.Is(err, errBuild) {
			t.reason, err = fmt.Sprintf("with the mutation, %v; see %s", err, a.log(t.Name)), nil
		}
	}
	return err
}

// runEndToEnd runs the end-to-end tests of a mutation with the mutated programs, and
// removes these programs.
func (a *attempt) runEndToEnd(ctx context.Context, t *trial) (err error) {
	begun := time.Now()
	defer func() { t.took += time.Since(begun) }()
	defer func() { err = errors.Join(err, os.RemoveAll(t.programs)) }()
	for _, directory := range t.endToEnd() {
		if err := a.demand(ctx, t, directory); err != nil || t.reason != "" {
			return err
		}
	}
	return nil
}

// demand runs the tests of a package, and notes those that do not fail.
func (a *attempt) demand(ctx context.Context, t *trial, directory string) error {
	begun := time.Now()
	outcomes, err := a.test(ctx, t.Name, directory, t.Tests[directory], t.programs)
	if errors.Is(err, errBuild) {
		t.reason = fmt.Sprintf("%s: with the mutation, %v; see %s", directory, err, a.log(t.Name))
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range t.Tests[directory] {
		this := test{directory, name}.String()
		switch outcomes[name] {
		case failed:
			a.say("%s: %s fails, as it has to (%.0f s)\n", t.Name, this, time.Since(begun).Seconds())
		case passed:
			t.missed = append(t.missed, this)
		default:
			t.silent = append(t.silent, this)
		}
	}
	return nil
}

// verdict returns the verdict of a trial, and the reason when the mutation was not caught.
func (t *trial) verdict() (verdict, string) {
	switch {
	case t.reason != "":
		return notTried, t.reason
	case len(t.missed) > 0:
		return survived, strings.Join(t.missed, ", ") + " does not notice"
	case len(t.silent) > 0:
		return notTried, strings.Join(t.silent, ", ") + " did not run"
	}
	return caught, ""
}
