package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/artifacts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// RunTests is for TestMain of tests that need a sandbox; it returns the exit
// code. Outside a sandbox it brings one up, runs this test binary again inside,
// with the same arguments, and takes the sandbox down. Inside it runs the
// tests.
//
// With SANDBOX=name in the environment, that running sandbox is used and left
// as it is; with KEEP_SANDBOX=1, the new one is kept, for a look at it.
//
// The run fails if a component has died that no test stopped. Logs and objects of a
// failed run are kept in opts.Failed; RunTests clears that directory first, and
// prints its name when it keeps something there.
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
	if opts.Failed != "" {
		if err := os.RemoveAll(opts.Failed); err != nil { // what an earlier run has left
			return 0, err
		}
	}
	var s *Sandbox
	if name := os.Getenv("SANDBOX"); name != "" {
		if s, err = Open(name, ""); err != nil {
			return 0, fmt.Errorf("SANDBOX=%s: %w", name, err)
		}
		return s.judgeSelf(ctx, opts.Failed)
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
	return s.judgeSelf(ctx, opts.Failed)
}

// judgeSelf calls runSelf. It also fails if a component has died meanwhile that no
// test stopped. Logs and objects of a failed run are kept in the directory failed,
// unless that is empty.
func (s *Sandbox) judgeSelf(ctx context.Context, failed string) (int, error) {
	before, err := s.Status(ctx)
	if err != nil {
		return 0, err
	}
	if os.Getenv("SANDBOX") == "" {
		before = nil // deaths while the sandbox came up count as well
	}
	code, err := s.runSelf(ctx)
	after, statusErr := s.Status(context.WithoutCancel(ctx))
	if statusErr != nil {
		err = errors.Join(err, fmt.Errorf("after the tests: %w", statusErr))
	} else {
		for _, death := range deathsSince(before, after) {
			err = errors.Join(err, errors.New(death))
		}
	}
	if failed != "" && ctx.Err() == nil && (code != 0 || err != nil) {
		err = errors.Join(err, s.keepFailed(ctx, failed))
	}
	return code, err
}

// keepFailed keeps the logs of all components, and the objects and pod logs that are
// still in the cluster. Tests have already kept those of their own namespaces.
func (s *Sandbox) keepFailed(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	fmt.Fprintln(os.Stderr, "keeping logs and objects of the failed run in", dir)
	var all error
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if status, err := s.Status(ctx); err == nil {
		text, err := json.MarshalIndent(status, "", "  ")
		all = errors.Join(all, err, os.WriteFile(filepath.Join(dir, "status.json"), text, 0o644))
	}
	logs := filepath.Join(dir, "logs")
	all = errors.Join(all, os.RemoveAll(logs), os.CopyFS(logs, os.DirFS(s.layout.Logs())))
	return errors.Join(all, artifacts.Keep(ctx, s.Command, filepath.Join(dir, "cluster"), ""))
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
