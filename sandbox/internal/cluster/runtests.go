package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// RunTests is for TestMain of tests that need a sandbox; it returns the exit
// code. Outside a sandbox it brings one up, runs this test binary again inside,
// with the same arguments, and takes the sandbox down. Inside it runs the
// tests.
//
// With SANDBOX=name in the environment, that running sandbox is used and left
// as it is; with KEEP_SANDBOX=1, the new one is kept, for a look at it.
func RunTests(m *testing.M, opts Options) int {
	if !flag.Parsed() {
		flag.Parse()
	}
	if list := flag.Lookup("test.list"); Inside() || (list != nil && list.Value.String() != "") {
		return m.Run()
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	defer stop()
	code, err := runTests(ctx, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return 1
	}
	return code
}

func runTests(ctx context.Context, opts Options) (code int, err error) {
	var s *Sandbox
	if name := os.Getenv("SANDBOX"); name != "" {
		if s, err = Open(name, ""); err != nil {
			return 0, fmt.Errorf("SANDBOX=%s: %w", name, err)
		}
		return s.runSelf(ctx)
	}

	keep := os.Getenv("KEEP_SANDBOX") == "1"
	if opts.Progress == nil {
		opts.Progress = progress.New(os.Stderr)
	}
	opts.Owned = !keep
	opts.KeepFailed = keep
	if s, err = Up(ctx, opts); err != nil {
		return 0, err
	}
	if keep {
		defer opts.Progress.Say("the sandbox is kept; enter it with: sandbox shell --state %s", s.layout.Dir)
	} else {
		defer func() { err = errors.Join(err, s.Down()) }()
	}
	return s.runSelf(ctx)
}

// runSelf runs this program again inside the sandbox, with the same arguments,
// and returns its exit code.
func (s *Sandbox) runSelf(ctx context.Context) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd, err := s.Command(ctx, append([]string{self}, os.Args[1:]...)...)
	if err != nil {
		return 0, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return ExitCode(cmd.Run())
}

// ExitCode turns the result of running a command into its exit code: 128 plus
// the signal if one ended it. Any other error is returned.
func ExitCode(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
