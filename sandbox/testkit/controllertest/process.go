package controllertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Programs as the node runs them in the controller's container.
const (
	PluginProgram     = "/home/argo-rollouts/plugin-bin/kedify/http"
	ControllerProgram = "/bin/rollouts-controller"
)

// running returns the ids, valid for signals from this test, of the processes that run
// a program.
func running(program string) ([]int, error) {
	return e2etest.Processes(func(dir string) bool {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		first, _, _ := strings.Cut(string(line), "\x00")
		return err == nil && first == program
	})
}

// Process waits until one process runs a program, and returns its id, valid for signals
// from this test.
func Process(t testing.TB, program string) int {
	t.Helper()
	var id int
	e2etest.Eventually(t, e2etest.Patience, "one process "+program, func(context.Context) error {
		ids, err := running(program)
		if err == nil && len(ids) != 1 {
			err = fmt.Errorf("there are %d: %v", len(ids), ids)
		}
		if err == nil {
			id = ids[0]
		}
		return err
	})
	return id
}

// AnotherProcess waits until exactly one process runs a program, and its id is not the
// given one; it returns the new id.
func AnotherProcess(t testing.TB, program string, id int) int {
	t.Helper()
	var now int
	e2etest.Eventually(t, e2etest.Patience, "another process "+program, func(context.Context) error {
		ids, err := running(program)
		if err == nil && (len(ids) != 1 || ids[0] == id) {
			err = fmt.Errorf("there are %v; %d was the one before", ids, id)
		}
		if err == nil {
			now = ids[0]
		}
		return err
	})
	return now
}
