package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/artifacts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// commandTimeout bounds one run of the command: the longest is `up` on a busy
// machine.
const commandTimeout = 4 * time.Minute

// user runs the sandbox command with an XDG_STATE_HOME of its own.
type user struct {
	stateHome string
	env       []string
	workDir   string              // of its commands; empty means the test's
	as        *syscall.Credential // nil means the user that runs the test
}

// newUser returns a user whose sandboxes are taken down when the test ends.
func newUser(t *testing.T) user {
	t.Helper()
	u := user{stateHome: t.TempDir(), env: os.Environ()}
	u.downAtEnd(t)
	return u
}

// downAtEnd takes down what the test has left of the user's sandboxes.
func (u user) downAtEnd(t *testing.T) {
	t.Cleanup(func() {
		entries, err := os.ReadDir(u.root())
		if err != nil {
			return // no sandbox was left, as it should be
		}
		for _, entry := range entries {
			if t.Failed() {
				u.keepLogs(t, entry.Name())
			}
			down := u.command(context.Background(), "down", "--name", entry.Name())
			if output, err := down.CombinedOutput(); err != nil {
				t.Errorf("sandbox down --name %s: %v\n%s", entry.Name(), err, output)
			}
		}
	})
}

// keepLogs keeps the logs of a sandbox whose test has failed.
func (u user) keepLogs(t *testing.T, name string) {
	dir, err := artifacts.Dir("lifecycle")
	if err != nil {
		t.Log(err)
		return
	}
	dir = filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-"), name)
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(filepath.Join(u.dir(name), "logs")))); err != nil {
		t.Log(err)
	}
	t.Logf("the logs of sandbox %s are in %s", name, dir)
}

// root is the directory that holds the user's sandboxes.
func (u user) root() string { return filepath.Join(u.stateHome, "rollouts-sandbox") }

// dir is the state directory of a sandbox.
func (u user) dir(name string) string { return filepath.Join(u.root(), name) }

func (u user) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = u.workDir
	cmd.Env = slices.Concat(u.env, []string{"XDG_STATE_HOME=" + u.stateHome})
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: u.as}
	// The child of a killed command may hold its output open.
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
}

func (u user) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return u.runWithInput(t, "", args...)
}

func (u user) runWithInput(t *testing.T, input string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := u.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	code, err := cluster.ExitCode(cmd.Run())
	if err != nil {
		t.Fatalf("sandbox %s: %v", strings.Join(args, " "), err)
	}
	return outcome{code, stdout.String(), stderr.String()}
}

// must runs a command that has to succeed, and returns its output.
func (u user) must(t *testing.T, args ...string) string {
	t.Helper()
	o := u.run(t, args...)
	if o.code != 0 {
		t.Fatalf("sandbox %s: exit code %d\n%s%s", strings.Join(args, " "), o.code, o.stdout, o.stderr)
	}
	return o.stdout
}

// refused runs a command that has to fail with the exit code 1 and to print each of the
// texts to stderr.
func (u user) refused(t *testing.T, args []string, texts ...string) {
	t.Helper()
	o := u.run(t, args...)
	if o.code != 1 {
		t.Errorf("sandbox %s: exit code %d, want 1\n%s%s", strings.Join(args, " "), o.code, o.stdout, o.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(o.stderr, text) {
			t.Errorf("sandbox %s does not say %q:\n%s", strings.Join(args, " "), text, o.stderr)
		}
	}
}

// eventually calls check until it returns "" and fails the test with what it
// last returned when that takes longer than within.
func eventually(t *testing.T, within time.Duration, check func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s still: %s", within, problem)
		}
		<-ticker.C
	}
}
