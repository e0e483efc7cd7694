package e2etest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/artifacts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// RunTests is cluster.RunTests in a sandbox with add-ons besides the default ones,
// and with the programs under test: those that $PLUGIN and the like name, or what
// `make build` makes. The sandbox is called name with the process id added. RunTests
// returns the exit code. The run also fails if a container was restarted that needs
// AllowRestarts for it.
func RunTests(m *testing.M, name string, with ...string) int {
	if !flag.Parsed() {
		flag.Parse()
	}
	opts := cluster.Options{Name: fmt.Sprintf("%s-%d", name, os.Getpid()), With: with}
	if list := flag.Lookup("test.list"); !cluster.Inside() && os.Getenv("SANDBOX") == "" && (list == nil || list.Value.String() == "") {
		if err := complete(&opts); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			return 2
		}
	}
	dir, err := artifacts.Dir(name)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 2
	}
	failedRun, opts.Failed = dir, dir
	run := func() int { return cluster.RunTests(m, opts) }
	if cluster.Inside() {
		return runWatched(run)
	}
	return run()
}

// atOnce is how many tests run at the same time in RunWaitingTests.
const atOnce = "8"

// RunWaitingTests is RunTests for tests that mostly wait: more of them run at the same
// time than there are CPUs, unless -parallel says how many.
func RunWaitingTests(m *testing.M, name string, with ...string) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			return 2
		}
	}
	return RunTests(m, name, with...)
}

// complete finds the programs under test. A missing one is an error, not a reason to
// test less.
func complete(opts *cluster.Options) error {
	opts.Progress = progress.New(os.Stderr)
	opts.Programs = make(addon.Paths)
	selected, err := addon.Select(addons.All(), opts.With, opts.Bare)
	if err != nil {
		return err
	}
	for _, a := range selected {
		for _, p := range a.Programs {
			if p.Built == "" {
				continue // Prepare knows where it is
			}
			if opts.Programs[p.Name], err = program(p.Variable, p.Built); err != nil {
				return err
			}
		}
	}
	return nil
}

// program returns the absolute path of a program under test: the one that a
// variable names, or a file of the repository. It is not built here: what is
// tested should be what is released, built with the same flags.
func program(variable, file string) (string, error) {
	path := os.Getenv(variable)
	if path == "" {
		root, err := build.FindRepository()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, file)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", errors.Join(err, fmt.Errorf("no program at %s: build it with `make build` in the repository, or name one in %s", path, variable))
	}
	return path, nil
}
