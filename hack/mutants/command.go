package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// stopTimeout is how long interrupted tests may take to remove their sandbox.
const stopTimeout = time.Minute

// runCommand runs a command in a directory, and passes on what it prints. When ctx
// ends, the command and all that it started are interrupted; none of them runs any
// more when this returns.
func runCommand(ctx context.Context, directory string, environment []string, stdout, stderr io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = directory, environment, stdout, stderr
	// A process group of its own, so that an interrupt from the terminal arrives
	// once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = stopTimeout
	err := cmd.Run()
	if cmd.Process != nil && (ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay)) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
