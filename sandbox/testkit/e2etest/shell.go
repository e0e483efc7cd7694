package e2etest

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// Repository returns a path in the source tree.
func Repository(t testing.TB, path ...string) string {
	t.Helper()
	root, err := build.FindRepository()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, path...)...)
}

// Shell runs command lines as a person types them, and returns what they print. They have
// Patience each.
func Shell(t testing.TB, line string) string {
	t.Helper()
	begun := time.Now()
	output, err := TryShell(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s (%v)", line, time.Since(begun).Round(time.Millisecond))
	return output
}

// TryShell is Shell from any goroutine: it returns the error, with what the command
// line has printed.
func TryShell(ctx context.Context, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience*time.Duration(1+strings.Count(line, "\n")))
	defer cancel()
	output, err := exec.CommandContext(ctx, "sh", "-c", line).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", line, err, output)
	}
	return string(output), err
}
