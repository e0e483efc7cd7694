package checktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// patience is how long the check may take to find a fault, or to find it gone: the
// cluster has to act on it first.
const patience = 60 * time.Second

// Finding is a result that a fault leads to.
type Finding struct {
	// Check is the name of the check, Status the verdict.
	Check, Status string
	// Object is the checked object, without its namespace: "Kind name". Empty means any
	// object.
	Object string
	// The result's message and remedy have to contain Message and Remedy.
	Message, Remedy string
}

// Fault is something that keeps, or may keep, a canary from working.
type Fault struct {
	// Name says what is wrong.
	Name string
	// Make makes the fault; Undo puts everything back. Make is called before each run
	// of the check, since the cluster may have undone the fault by itself.
	Make, Undo func()
	// Want are the findings it leads to.
	Want []Finding
	// Also are further checks that need not be ok, for the same reason. All results of
	// any other check have to be ok.
	Also []string
	// Args are further arguments of the check.
	Args []string
}

// Find makes the fault, runs the check with args until it finds what the fault
// leads to and nothing else, and undoes the fault, after which the check has
// to find nothing.
func (f Fault) Find(t testing.TB, args ...string) {
	t.Helper()
	f.FindOnly(t, args...)
	f.Undo()
	AwaitHealthy(t, args...)
}

// FindOnly is Find without undoing the fault.
func (f Fault) FindOnly(t testing.TB, args ...string) Report {
	t.Helper()
	var last Report
	await(t, "finding the fault: "+f.Name, func(ctx context.Context) (err error) {
		f.Make()
		if last, err = Read(ctx, "", append(args, f.Args...)...); err != nil {
			return err
		}
		return f.foundIn(last)
	})
	return last
}

func (f Fault) foundIn(r Report) error {
	var checks []string
	for _, want := range f.Want {
		if !slices.ContainsFunc(r.Results, want.matches) {
			return fmt.Errorf("no %s of %s about %q with %q and the remedy %q in:\n%s", want.Status, want.Check, want.Object, want.Message, want.Remedy, r)
		}
		checks = append(checks, want.Check)
	}
	for _, result := range r.Results {
		if result.Status != OK && !slices.Contains(checks, result.Check) && !slices.Contains(f.Also, result.Check) {
			return fmt.Errorf("%s was not to be expected in:\n%s", result.Check, r)
		}
	}
	return nil
}

func (f Finding) matches(r Result) bool {
	return r.Check == f.Check && r.Status == f.Status && (f.Object == "" || withoutNamespace(r.Object) == f.Object) &&
		strings.Contains(r.Message, f.Message) && strings.Contains(r.Remedy, f.Remedy)
}

// withoutNamespace turns "Kind namespace/name" into "Kind name", and leaves anything
// else, such as a location, as it is.
func withoutNamespace(object string) string {
	kind, rest, isObject := strings.Cut(object, " ")
	if !isObject {
		return object
	}
	if _, name, found := strings.Cut(rest, "/"); found {
		rest = name
	}
	return kind + " " + rest
}

func await(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	e2etest.Eventually(t, patience, what, check)
}
