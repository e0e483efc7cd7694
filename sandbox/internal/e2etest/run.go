package e2etest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// RunTests is cluster.RunTests in a sandbox with the plugin under test: the one
// that $PLUGIN names, or what `make build` makes. name is the sandbox's, to
// which the process id is added; it returns the exit code.
func RunTests(m *testing.M, name string) int {
	if !flag.Parsed() {
		flag.Parse()
	}
	opts := cluster.Options{Name: fmt.Sprintf("%s-%d", name, os.Getpid())}
	if !cluster.Inside() && os.Getenv("SANDBOX") == "" {
		var err error
		if opts.Plugin, err = plugin(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			return 2
		}
	}
	return cluster.RunTests(m, opts)
}

// plugin returns the absolute path of the plugin under test. It is not built
// here: what is tested should be what is released, built with the same flags.
func plugin() (string, error) {
	path := os.Getenv("PLUGIN")
	if path == "" {
		root, err := build.FindRepository()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, "rollouts-plugin-kedify")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", errors.Join(err, fmt.Errorf("no plugin at %s: build it with `make build` in the repository, or name one in PLUGIN", path))
	}
	return path, nil
}
