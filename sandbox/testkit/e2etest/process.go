package e2etest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Processes returns the ids of the sandbox's processes that match, by their directory
// in /proc. The ids are valid for signals from this test. A process that ends
// meanwhile does not match.
func Processes(matches func(dir string) bool) ([]int, error) {
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
		if !matches(dir) {
			continue
		}
		if own, err := os.Readlink(filepath.Join(dir, "ns", "pid")); err != nil || own != namespace {
			continue // of a sandbox within this one
		}
		id, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// KillProcess ends a process with SIGKILL.
func KillProcess(t testing.TB, id int) {
	t.Helper()
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Fatalf("killing process %d: %v", id, err)
	}
}

// AwaitProcessEnd waits until there is no process with an id.
func AwaitProcessEnd(t testing.TB, id int) {
	t.Helper()
	Eventually(t, Patience, fmt.Sprintf("the end of process %d", id), func(context.Context) error {
		if err := syscall.Kill(id, 0); !errors.Is(err, syscall.ESRCH) {
			return errors.Join(errors.New("it is still there"), err)
		}
		return nil
	})
}
