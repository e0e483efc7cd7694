// Command testtimes says where the time of tests went: the slowest ones, and the
// seconds of each package. Its arguments are files of events as `go test -json` prints
// them, of which it needs those of tests that end; gotestsum writes these with
// --jsonfile-timing-events.
//
// Of a test with subtests, only the subtests count. Tests that run at the same time each
// have their own seconds, so that they may add up to more than their package took.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// slowest is how many tests are listed.
const slowest = 20

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testtimes:", err)
		os.Exit(1)
	}
}

func run(files []string, out io.Writer) error {
	if len(files) == 0 {
		return errors.New("no files: run tests first, as with make test-unit")
	}
	var all []timing
	for _, file := range files {
		events, err := read(file)
		if err != nil {
			return err
		}
		all = append(all, events...)
	}
	return report(out, all)
}

// timing is an event that ends a test, or a package where Test is empty.
type timing struct {
	Action, Package, Test string
	Elapsed               float64 // seconds
}

func read(file string) ([]timing, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var all []timing
	decoder := json.NewDecoder(f)
	for {
		var t timing
		if err := decoder.Decode(&t); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: event %d: %w: want the output of go test -json", file, len(all)+1, err)
		}
		if t.Action == "pass" || t.Action == "fail" {
			all = append(all, t)
		}
	}
}

func report(out io.Writer, all []timing) error {
	parents := map[[2]string]bool{}
	packages := map[string]float64{}
	for _, t := range all {
		if t.Test == "" {
			packages[t.Package] += t.Elapsed
		}
		for name := t.Test; strings.Contains(name, "/"); {
			name = name[:strings.LastIndex(name, "/")]
			parents[[2]string{t.Package, name}] = true
		}
	}
	tests := slices.DeleteFunc(all, func(t timing) bool {
		return t.Test == "" || parents[[2]string{t.Package, t.Test}]
	})
	slices.SortStableFunc(tests, func(a, b timing) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "seconds\t  the slowest of %d tests\n", len(tests))
	for _, t := range tests[:min(len(tests), slowest)] {
		fmt.Fprintf(w, "%.1f\t  %s %s\n", t.Elapsed, short(t.Package), t.Test)
	}
	fmt.Fprintf(w, "\nseconds\t  package\n")
	names := make([]string, 0, len(packages))
	for name := range packages {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(packages[b], packages[a]), cmp.Compare(a, b))
	})
	total := 0.0
	for _, name := range names {
		total += packages[name]
		fmt.Fprintf(w, "%.1f\t  %s\n", packages[name], short(name))
	}
	fmt.Fprintf(w, "%.1f\t  in all\n", total)
	return w.Flush()
}

// short is a package's path in the repository.
func short(path string) string {
	return strings.TrimPrefix(path, "github.com/kedify/argo-rollouts-plugin/")
}
