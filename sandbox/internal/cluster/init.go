package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// InitMain is PID 1 of a sandbox: it prepares the mount namespace, starts the daemon,
// and reaps orphaned processes. It ends with the daemon, and the kernel then ends
// everything else in the sandbox. If owned, descriptor 3 is a pipe: when its other
// end is closed, the sandbox ends and its state directory is removed. It returns the
// exit code.
func InitMain(l Layout, owned bool) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("component", "init")
	if os.Getpid() != 1 {
		log.Error("`sandbox init` is PID 1 of a sandbox; use `sandbox up`")
		return 2
	}
	if err := setUpMounts(l, log); err != nil {
		log.Error(err.Error())
		return 1
	}
	pid, err := startDaemon(l)
	if err != nil {
		log.Error(err.Error())
		return 1
	}
	forwardTermination(pid)
	ownerEnded := make(chan struct{})
	if owned {
		go endWithOwner(ownerEnded)
	}
	code, err := reapUntil(pid)
	if err != nil {
		log.Error(err.Error())
		return 1
	}
	select {
	case <-ownerEnded:
		log.Info("the owner has ended, and the sandbox with it")
		if err := cleanUp(l); err != nil {
			log.Error(err.Error())
			return 1
		}
		return 0
	default:
	}
	log.Info("the daemon has ended", "code", code)
	return code
}

// startDaemon starts the daemon without os/exec, which would wait for it by
// itself and compete with reapUntil.
func startDaemon(l Layout) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	pid, err := syscall.ForkExec(l.Program(), []string{l.Program(), "daemon", "--state", l.Dir}, &syscall.ProcAttr{
		Dir:   l.Dir,
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), os.Stdout.Fd(), os.Stderr.Fd()},
	})
	if err != nil {
		return 0, fmt.Errorf("starting the daemon: %w", err)
	}
	return pid, nil
}

func forwardTermination(pid int) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	go func() {
		for s := range signals {
			// The daemon may be gone already; then this process is about to end.
			_ = unix.Kill(pid, s.(syscall.Signal))
		}
	}()
}

// endWithOwner kills every other process of the sandbox when its owner ends, even if
// the owner is killed: the kernel closes the owner's end of the pipe.
func endWithOwner(ended chan<- struct{}) {
	_, _ = io.Copy(io.Discard, os.NewFile(ownerFD, "owner"))
	close(ended) // before the daemon ends, which is what PID 1 waits for
	_ = unix.Kill(-1, unix.SIGKILL)
}

// cleanUp removes the state directory once no process is left to write to it.
func cleanUp(l Layout) error {
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return removeState(l)
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("waiting for the last processes: %w", err)
		}
	}
}

// reapUntil waits for children, own and adopted, until pid has ended, and
// returns its exit code; 128 plus the signal if one ended it, as a shell does.
func reapUntil(pid int) (int, error) {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("waiting for the daemon: %w", err)
		case ended != pid:
			continue
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		case status.Exited():
			return status.ExitStatus(), nil
		}
	}
}
