package controllertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// Programs as the node runs them in the controller's container.
const (
	PluginProgram     = "/home/argo-rollouts/plugin-bin/kedify/http"
	ControllerProgram = "/bin/rollouts-controller"
)

// running returns the ids, as this test may signal them, of the processes that
// run a program.
func running(program string) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		first, _, _ := strings.Cut(string(line), "\x00")
		if own, err := os.Readlink(filepath.Join(dir, "ns", "pid")); err != nil || own != namespace || first != program {
			continue
		}
		id, err := ownID(dir)
		if err != nil {
			continue
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// ownID reads a process's id in its own PID namespace: /proc may be one of a
// namespace around it.
func ownID(dir string) (int, error) {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if ids, found := strings.CutPrefix(line, "NSpid:"); found {
			fields := strings.Fields(ids)
			return strconv.Atoi(fields[len(fields)-1])
		}
	}
	return 0, fmt.Errorf("%s/status has no NSpid", dir)
}

// Process waits until one process runs a program, and returns its id, as this test may
// signal it.
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

// Kill ends a process with SIGKILL.
func Kill(t testing.TB, id int) {
	t.Helper()
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Fatalf("killing process %d: %v", id, err)
	}
}

// AnotherProcess waits until a program is run by one process, and that is not the one
// with the id; it returns the new id.
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

// AwaitEnd waits until there is no process with an id.
func AwaitEnd(t testing.TB, id int) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("the end of process %d", id), func(context.Context) error {
		err := syscall.Kill(id, 0)
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}
