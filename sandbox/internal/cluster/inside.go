package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

// stateVariable tells a process inside a sandbox the sandbox's state directory.
const stateVariable = "SANDBOX_STATE"

// Inside says whether this process runs inside a sandbox.
func Inside() bool { return os.Getenv(stateVariable) != "" }

// InsideLayout returns the state directory of the sandbox that this process
// runs in.
func InsideLayout() (Layout, error) {
	dir := os.Getenv(stateVariable)
	if dir == "" {
		return Layout{}, errors.New("not inside a sandbox: " + stateVariable + " is not set")
	}
	return Layout{Dir: dir}, nil
}

// Current returns the sandbox that this process runs in.
func Current() (*Sandbox, error) {
	l, err := InsideLayout()
	if err != nil {
		return nil, err
	}
	return &Sandbox{layout: l}, nil
}

// RESTConfig returns the administrator's configuration of a client, without a
// client-side rate limit. It works inside a sandbox only.
func RESTConfig() (*rest.Config, error) {
	l, err := InsideLayout()
	if err != nil {
		return nil, err
	}
	return restConfig(l.Kubeconfig())
}

// AddonPaths returns the paths that an add-on of the sandbox that this process runs
// in has prepared; see addon.Prepared.
func AddonPaths(name string) (addon.Paths, error) {
	l, err := InsideLayout()
	if err != nil {
		return nil, err
	}
	s, err := loadSettings(l)
	if err != nil {
		return nil, err
	}
	paths := s.paths(name)
	if paths == nil {
		return nil, fmt.Errorf("the sandbox has no add-on %s, or one without programs", name)
	}
	return paths, nil
}

// Component stops or starts a component of the sandbox that this process runs
// in; action is "stop", "kill" (stop with SIGKILL) or "start". Stopping returns
// once the component is gone, starting once it is ready.
func Component(ctx context.Context, action, name string) error {
	l, err := InsideLayout()
	if err != nil {
		return err
	}
	return changeComponent(ctx, l, action, name)
}

func changeComponent(ctx context.Context, l Layout, action, name string) error {
	switch action {
	case "stop", "start":
		return control{l}.component(ctx, action, name, false)
	case "kill":
		return control{l}.component(ctx, "stop", name, true)
	default:
		return fmt.Errorf("no action %q on components; there are stop, kill and start", action)
	}
}

// StopComponentFor stops a component of the sandbox that this process runs in, calls
// during if it is not nil, and starts the component again once during has returned
// and d has passed. If during fails or ctx ends, it starts the component without
// waiting any longer, and returns the error.
func StopComponentFor(ctx context.Context, name string, d time.Duration, during func() error) error {
	if err := Component(ctx, "stop", name); err != nil {
		return err
	}
	down := time.NewTimer(d)
	defer down.Stop()
	var err error
	if during != nil {
		err = during()
	}
	if err == nil {
		select {
		case <-down.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return errors.Join(err, Component(context.WithoutCancel(ctx), "start", name))
}

// EnterMain is where a command run inside a sandbox starts, already in its
// namespaces: it sets the environment and the working directory, and becomes
// the command. With foreground it takes the terminal for a process group of its
// own, as a shell with job control needs. It returns only an error.
func EnterMain(l Layout, dir string, foreground bool, args []string) error {
	if len(args) == 0 {
		return errors.New("no command to run in the sandbox")
	}
	env := insideEnvironment(l, os.Environ())
	if err := os.Setenv("PATH", lookup(env, "PATH")); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	if foreground {
		takeTerminal()
	}
	// The command must not outlive nsenter. The setting belongs to the thread
	// that calls exec.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	// nsenter was started with SIGINT and SIGQUIT ignored. exec resets handled
	// signals to their default action; ignored ones would stay ignored.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGQUIT)
	return fmt.Errorf("%s: %w", path, unix.Exec(path, args, env))
}

// takeTerminal makes this process the leader of a process group that has the
// terminal. The process group of its parent has no id in the sandbox's PID namespace,
// so that a shell could not give the terminal back to that group.
func takeTerminal() {
	signal.Ignore(unix.SIGTTOU) // sent to a background process that takes the terminal
	defer signal.Reset(unix.SIGTTOU)
	if unix.Setpgid(0, 0) == nil {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, os.Getpid())
	}
}

// insideEnvironment is the caller's environment, changed for commands inside: with
// the sandbox's programs and kubeconfig, and without proxies, which could not be
// reached.
func insideEnvironment(l Layout, environ []string) []string {
	var env []string
	path := l.Bin()
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "KUBECONFIG", stateVariable:
			continue
		}
		if name == "PATH" {
			path += string(filepath.ListSeparator) + value
			continue
		}
		env = append(env, entry)
	}
	return append(env, "PATH="+path, "KUBECONFIG="+l.Kubeconfig(), stateVariable+"="+l.Dir)
}

// lookup returns the value of a variable in an environment, or "".
func lookup(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
