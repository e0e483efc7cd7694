package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// unmutated is the name of the run without a mutation.
const unmutated = "without-a-mutation"

// tryNone runs the tests of the mutations in the sources as they are, where they have to
// pass, but for those that passed in an earlier run. It returns why mutations cannot be
// tried, by the name of the mutation.
func (a *attempt) tryNone(ctx context.Context, mutations []mutation) (unfit map[string]string, err error) {
	unfit = map[string]string{}
	open := map[string]map[string]bool{}
	for _, m := range mutations {
		if err := m.check(a.tree); err != nil {
			unfit[m.Name] = err.Error()
			continue
		}
		for _, t := range m.tests() {
			if a.results.Unmutated[t.String()] == a.sources {
				continue
			}
			if open[t.directory] == nil {
				open[t.directory] = map[string]bool{}
			}
			open[t.directory][t.name] = true
		}
	}
	bad := map[test]string{}
	for i, directory := range slices.Sorted(maps.Keys(open)) {
		a.say("[%d/%d] without a mutation: %s\n", i+1, len(open), directory)
		faults, err := a.runUnmutated(ctx, directory, slices.Sorted(maps.Keys(open[directory])))
		if err != nil {
			return nil, err
		}
		maps.Copy(bad, faults)
	}
	for _, m := range mutations {
		for _, t := range m.tests() {
			if unfit[m.Name] == "" && bad[t] != "" {
				unfit[m.Name] = fmt.Sprintf("%s; see %s", bad[t], a.log(unmutated))
			}
		}
	}
	return unfit, nil
}

// runUnmutated runs tests of a package, keeps which of them pass, and returns what is
// wrong with the others.
func (a *attempt) runUnmutated(ctx context.Context, directory string, names []string) (bad map[test]string, err error) {
	var programs string
	if isEndToEnd(directory) {
		programs, err = a.build(ctx, unmutated)
	}
	var outcomes map[string]outcome
	if err == nil {
		outcomes, err = a.test(ctx, unmutated, directory, names, programs)
	}
	if err != nil && !errors.Is(err, errBuild) {
		return nil, err
	}
	bad = map[test]string{}
	for _, name := range names {
		t := test{directory, name}
		switch {
		case err != nil:
			bad[t] = fmt.Sprintf("%s: without the mutation, %v", directory, err)
		case outcomes[name] == passed:
			a.results.Unmutated[t.String()] = a.sources
		case outcomes[name] == failed:
			bad[t] = t.String() + " fails without the mutation, too"
		default:
			bad[t] = t.String() + " did not run without the mutation"
		}
	}
	return bad, a.results.save()
}
