package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"
)

// try tries the mutations whose names match on the sources in root, but for those
// that an earlier run has caught in the same sources. It is an error when a mutation
// was not caught.
func try(ctx context.Context, root string, mutations []mutation, names *regexp.Regexp, out io.Writer) (err error) {
	mutations = slices.DeleteFunc(slices.Clone(mutations), func(m mutation) bool { return !names.MatchString(m.Name) })
	if len(mutations) == 0 {
		return fmt.Errorf("no mutation has a name that matches %q: see %s", names, listFile)
	}
	dir := filepath.Join(root, "bin", "mutants")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	a := &attempt{out: out, tester: tester{tree: filepath.Join(dir, "tree"), logs: filepath.Join(dir, "logs"), programs: filepath.Join(dir, "programs")}}
	clear := func() error { return errors.Join(os.RemoveAll(a.tree), os.RemoveAll(a.programs)) }
	if err := clear(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clear()) }()
	if a.sources, err = copyTracked(ctx, root, a.tree); err != nil {
		return err
	}
	if a.results, err = readResults(filepath.Join(dir, "results.json")); err != nil {
		return err
	}
	begun := time.Now()
	before, err := a.tryAll(ctx, mutations)
	return errors.Join(err, a.report(mutations, before, time.Since(begun)))
}

// lock keeps other runs out of the directory until unlock is called. It is an error if
// another run has the lock.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is locked: another `make mutants` runs", file)
	}
	return func() { _ = f.Close() }, nil
}

// attempt tries mutations. Tests that are not end-to-end run one after the other, since
// the compiler takes all processors; end-to-end tests, which mostly wait, run beside.
type attempt struct {
	tester
	sources string // a hash of the sources

	mu      sync.Mutex // guards out and results
	out     io.Writer
	results *results
}

// endToEndAtOnce is how many sandboxes are up at the same time.
const endToEndAtOnce = 2

// tryAll tries the mutations that are not known to be caught, and keeps the result
// of each as soon as it is there. It returns how many were known.
func (a *attempt) tryAll(ctx context.Context, mutations []mutation) (known int, err error) {
	var open []mutation
	for _, m := range mutations {
		key, err := keyOf(a.sources, m)
		if err != nil {
			return known, err
		}
		if last := a.results.Mutations[m.Name]; last.Key == key && last.Verdict == caught {
			known++
			continue
		}
		delete(a.results.Mutations, m.Name)
		open = append(open, m)
	}
	if known > 0 {
		a.say("%d of %d mutations were caught by an earlier run in the same sources (%s)\n", known, len(mutations), a.results.file)
	}
	unfit, err := a.tryNone(ctx, open)
	if err != nil {
		return known, err
	}
	// Mutations with end-to-end tests come first, so that these run beside other tests.
	slices.SortStableFunc(open, func(one, other mutation) int { return len(other.endToEnd()) - len(one.endToEnd()) })

	// When one trial cannot go on, as at an interrupt, all of them stop.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var beside sync.WaitGroup
	free := make(chan struct{}, endToEndAtOnce)
	for i, m := range open {
		if ctx.Err() != nil {
			break
		}
		a.say("[%d/%d] %s: %s\n", i+1, len(open), m.Name, m.Breaks)
		t := &trial{mutation: m, reason: unfit[m.Name]}
		if t.reason == "" {
			err = a.breakTree(ctx, t)
		}
		switch {
		case err != nil:
		case t.reason != "" || t.programs == "":
			err = a.conclude(t)
		default:
			beside.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				err := a.runEndToEnd(ctx, t)
				if err == nil {
					err = a.conclude(t)
				}
				if err != nil {
					stop(err)
				}
			})
		}
		if err != nil {
			stop(err)
		}
	}
	beside.Wait()
	return known, context.Cause(ctx)
}

// conclude saves the result of a trial.
func (a *attempt) conclude(t *trial) error {
	v, reason := t.verdict()
	if len(t.missed)+len(t.silent) > 0 {
		reason += "; see " + a.log(t.Name)
	}
	if v != caught {
		a.say("%s: %s: %s\n", t.Name, v, reason)
	}
	key, err := keyOf(a.sources, t.mutation)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.results.Mutations[t.Name] = result{Key: key, Verdict: v, Reason: reason, Seconds: t.took.Seconds()}
	return a.results.save()
}

func (a *attempt) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(a.out, format, args...)
}
