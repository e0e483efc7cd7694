package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// testTimeout bounds the tests of one package with one mutation.
const testTimeout = 10 * time.Minute

// outcome is the last action of a test, in the words of go test -json.
type outcome string

const (
	running outcome = "run"
	paused  outcome = "pause"
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
)

var errBuild = errors.New("it does not compile")

// goTest runs tests of one package in the tree, and nothing else, and returns which
// of them passed and which failed. It writes what they print to log. It is an error if
// the package does not compile, or if ctx ends.
func goTest(ctx context.Context, tree, directory string, names, environment []string, log io.Writer) (map[string]outcome, error) {
	module, err := moduleOf(tree, directory)
	if err != nil {
		return nil, err
	}
	within, err := filepath.Rel(module, directory)
	if err != nil {
		return nil, err
	}
	events := &eventReader{log: log, compiles: true, last: map[string]outcome{}}
	exit := runCommand(ctx, filepath.Join(tree, module), environment, events, log,
		"go", "test", "-json", "-vet=off", "-count=1", "-timeout", testTimeout.String(),
		"-run", "^("+strings.Join(names, "|")+")$", "./"+filepath.ToSlash(within))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !events.compiles:
		return nil, errBuild
	}
	return events.outcomes(exit != nil), nil
}

// moduleOf returns the directory of the Go module that a directory is in.
func moduleOf(tree, directory string) (string, error) {
	for module := directory; ; module = filepath.Dir(module) {
		if _, err := os.Stat(filepath.Join(tree, module, "go.mod")); err == nil {
			return module, nil
		}
		if module == "." {
			return "", fmt.Errorf("%s is in no Go module", directory)
		}
	}
}

// eventReader reads what go test -json writes to it.
type eventReader struct {
	log      io.Writer
	rest     []byte // the beginning of a line that is not whole yet
	compiles bool
	last     map[string]outcome // of each test
}

func (r *eventReader) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		r.rest = rest
		if err := r.line(line); err != nil {
			return 0, err
		}
	}
}

func (r *eventReader) line(line []byte) error {
	var event struct{ Action, Test, Output, FailedBuild string }
	if json.Unmarshal(line, &event) != nil {
		event.Output = string(line) + "\n" // of the go command itself
	}
	if event.Action == "build-fail" || event.FailedBuild != "" {
		r.compiles = false
	}
	if event.Test != "" && !strings.Contains(event.Test, "/") {
		switch event.Action {
		case "run", "pause", "pass", "fail", "skip":
			r.last[event.Test] = outcome(event.Action)
		case "cont":
			r.last[event.Test] = running
		}
	}
	_, err := io.WriteString(r.log, event.Output)
	return err
}

// outcomes returns the tests that passed or failed. A test that was running when its test
// binary failed counts as failed: it panicked, or ran out of time.
func (r *eventReader) outcomes(binaryFailed bool) map[string]outcome {
	outcomes := map[string]outcome{}
	for name, last := range r.last {
		switch {
		case last == passed, last == failed:
			outcomes[name] = last
		case last == running && binaryFailed:
			outcomes[name] = failed
		}
	}
	return outcomes
}
