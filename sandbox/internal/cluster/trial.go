package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/node"
)

// trialTimeout bounds a trial, which takes a fraction of a second.
const trialTimeout = time.Minute

// try does on a small scale what a sandbox does, and says what to change on this machine if
// something of it cannot be done: it makes namespaces with a /proc and a network, runs a
// pod's process in them, enters them, and ends them. Before, it looks at /proc, and whether
// programs can be run from the cache and from the state directory.
func (s *Sandbox) try(ctx context.Context, cache string) error {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	l := s.layout
	if err := checkProc(); err != nil {
		return err
	}
	if cache == "" {
		var err error
		if cache, err = build.DefaultCache(); err != nil {
			return err
		}
	}
	if err := checkRuns(cache, "--cache or XDG_CACHE_HOME"); err != nil {
		return err
	}
	if err := checkRuns(l.Dir, "--state or XDG_STATE_HOME"); err != nil {
		return err
	}
	if err := writeNameResolution(l); err != nil {
		return err
	}

	cmd := namespacesCommand(l, "trial")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stdin, err := cmd.StdinPipe() // the trial ends with its other end, and so with this process
	if err != nil {
		return err
	}
	if err := start(cmd, l); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	_, readErr := bufio.NewReader(stdout).ReadString('\n')
	if readErr == nil {
		err = s.tryToEnter(ctx)
		if killErr := s.kill(ctx); killErr != nil {
			_ = stdin.Close() // it then ends by itself
			err = errors.Join(err, fmt.Errorf("%w (this takes Linux 5.3, and a seccomp profile that allows pidfd_open)", killErr))
		}
	}
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil: // whatever failed, failed because of it
		return fmt.Errorf("trying whether this machine can run a sandbox: %w", context.Cause(ctx))
	case readErr == nil:
		return err
	case complaint.Len() == 0:
		return fmt.Errorf("trying whether this machine can run a sandbox: its first process %s", exitWord(ended))
	}
	return errors.New(strings.TrimSpace(complaint.String()))
}

func (s *Sandbox) tryToEnter(ctx context.Context) error {
	cmd, err := s.Command(ctx, "sandbox", "--help")
	if err != nil {
		return err
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nsenter cannot enter a sandbox's namespaces here: %w\n%s", err, bytes.TrimSpace(output))
	}
	return nil
}

// checkProc returns an error if /proc has other process ids than this process: files in
// it would be another process's.
func checkProc() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("this machine has no /proc: %w", err)
	}
	if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("/proc is another PID namespace's: process %d is %s there; mount its own: mount -t proc proc /proc", os.Getpid(), self)
	}
	return nil
}

// checkRuns returns an error if the programs in a directory cannot be run. choose says
// how to have another directory.
func checkRuns(dir, choose string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if stat.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s is on a file system that is mounted noexec, and the sandbox runs programs there: choose another directory with %s", dir, choose)
	}
	return nil
}

// TrialMain is PID 1 of the namespaces of try: it prepares them as a sandbox does, runs
// a container there, writes a line, and stays until its standard input ends. It returns
// the exit code.
func TrialMain(l Layout) int {
	err := setUpMounts(l, slog.New(slog.DiscardHandler))
	if err == nil {
		err = tryNode(l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func tryNode(l Layout) error {
	config := nodeAddresses()
	config.StateDir = l.Dir
	err := node.SetUpNetwork(config)
	if err == nil {
		err = node.Try(config, l.Program())
	}
	if err != nil {
		return fmt.Errorf("%w\nIf the kernel's modules for it are missing: sudo modprobe -a bridge veth", err)
	}
	return nil
}
