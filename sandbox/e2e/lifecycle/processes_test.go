package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// inside identifies the processes of a sandbox by the PID namespace that they all
// share, including those that have detached from their parent.
type inside struct {
	pid       int
	namespace string
}

// insideOf returns the inside of a running sandbox.
func insideOf(t *testing.T, stateDir string) inside {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(stateDir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	if namespace == own {
		t.Fatalf("process %d shares this test's PID namespace: it is no sandbox", pid)
	}
	return inside{pid, namespace}
}

// processes returns the command lines of what runs in the sandbox.
func (i inside) processes(t *testing.T) []string {
	t.Helper()
	return processes(t, func(dir, _ string) bool {
		namespace, err := os.Readlink(filepath.Join(dir, "ns", "pid"))
		return err == nil && namespace == i.namespace
	})
}

// mentioning returns the command lines that hold a text, such as the path of a
// state directory.
func mentioning(t *testing.T, text string) []string {
	t.Helper()
	return processes(t, func(_, line string) bool { return strings.Contains(line, text) })
}

// processes returns the command lines of the processes that match accepts, given their
// directory in /proc and their command line. Zombies are left out.
func processes(t *testing.T, match func(dir, line string) bool) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, dir := range dirs {
		content, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(content) == 0 {
			continue // it has just ended
		}
		line := strings.TrimSpace(strings.ReplaceAll(string(content), "\x00", " "))
		if match(dir, line) {
			found = append(found, filepath.Base(dir)+" "+line)
		}
	}
	return found
}

// nothingLeft checks that neither a process nor a file of a sandbox is left.
func nothingLeft(t *testing.T, stateDir string, was inside) {
	t.Helper()
	if left := was.processes(t); len(left) > 0 {
		t.Errorf("still running in the sandbox:\n%s", strings.Join(left, "\n"))
	}
	if left := mentioning(t, stateDir); len(left) > 0 {
		t.Errorf("still running for %s:\n%s", stateDir, strings.Join(left, "\n"))
	}
	if _, err := os.Lstat(stateDir); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", stateDir, err)
	}
}
