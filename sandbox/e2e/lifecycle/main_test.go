// Package lifecycle tests the sandbox command from outside, as a person uses
// it: up, status, exec, shell, component, down, and what is left behind after
// each.
package lifecycle

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is the sandbox command under test, built by TestMain.
var program string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lifecycle:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "sandbox-lifecycle-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Other users than the one that runs the tests run the command, too.
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	program = filepath.Join(dir, "sandbox")
	build := exec.Command("go", "build", "-o", program, "../../cmd/sandbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the sandbox command: %w\n%s", err, output)
	}
	return m.Run(), nil
}
