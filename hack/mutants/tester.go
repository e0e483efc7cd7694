package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tester runs tests of the tree as it is at the time.
type tester struct {
	// tree is the copy of the sources; programs has those of each mutation, and
	// logs what its tests print.
	tree, programs, logs string
}

func (r tester) log(name string) string { return filepath.Join(r.logs, name+".log") }

// test runs tests of a package, and adds what they print to the log of that name.
// End-to-end tests get the programs in a directory that build has returned.
func (r tester) test(ctx context.Context, name, directory string, tests []string, programs string) (outcomes map[string]outcome, err error) {
	log, err := r.openLog(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return goTest(ctx, r.tree, directory, tests, r.environment(name, programs), log)
}

// programsOfProduct are what end-to-end tests run, as make build names them.
var programsOfProduct = map[string]string{"PLUGIN": "rollouts-plugin-kedify", "INTERCEPTOR": "bin/interceptor"}

// build builds the programs of the tree as a user gets them, and returns the directory
// that they are in.
func (r tester) build(ctx context.Context, name string) (programs string, err error) {
	log, err := r.openLog(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := runCommand(ctx, r.tree, r.environment(name, ""), log, log, "make", "build"); err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", fmt.Errorf("%w: make build: %w", errBuild, err)
	}
	programs = filepath.Join(r.programs, name)
	for _, program := range programsOfProduct {
		if _, err := copyFile(filepath.Join(r.tree, program), filepath.Join(programs, program)); err != nil {
			return "", err
		}
	}
	return programs, nil
}

func (r tester) openLog(name string) (*os.File, error) {
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(r.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// environment is the environment of this process, changed so that end-to-end tests bring
// up a sandbox of their own, with these programs.
func (r tester) environment(name, programs string) []string {
	ours := map[string]string{"SANDBOX": "", "KEEP_SANDBOX": "", "E2E_ARTIFACTS": filepath.Join(r.logs, name)}
	for variable, program := range programsOfProduct {
		ours[variable] = filepath.Join(programs, program)
	}
	environment := slices.DeleteFunc(os.Environ(), func(text string) bool {
		variable, _, _ := strings.Cut(text, "=")
		_, is := ours[variable]
		return is || variable == "PWD"
	})
	for variable, value := range ours {
		environment = append(environment, variable+"="+value)
	}
	return environment
}
