// Package cluster runs a whole Kubernetes cluster on one Linux machine, in
// namespaces of its own, without root and without Docker: etcd, the control
// plane, a node that runs pods as processes, and the add-ons that are asked for.
//
// Up brings a sandbox up from outside; programs that Command runs inside it reach the
// cluster with RESTConfig.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// Options says what sandbox to bring up. The zero value is the default sandbox, with
// the default add-ons.
type Options struct {
	// Name tells sandboxes apart; empty means DefaultName. See CheckName.
	Name string
	// State is the state directory; empty means
	// $XDG_STATE_HOME/rollouts-sandbox/<name>. It must be empty or not exist.
	State string
	// Repository is the root of the source tree; empty means to look for it.
	Repository string
	// Cache is the directory of the build cache; empty means its default.
	Cache string
	// With names the add-ons to have besides the default ones.
	With []string
	// Bare leaves out the default add-ons.
	Bare bool
	// Kubernetes is another minor release than the default, such as "v1.35".
	Kubernetes string
	// Versions are the releases of add-ons to use in place of Addon.Version, by the
	// add-on's name, such as "v1.9.0" or "v1.9".
	Versions map[string]string
	// Programs are the paths of programs to take instead of building them from
	// Repository, by their names; see addon.Addon.
	Programs addon.Paths
	// Deploy is the directory of the manifests users apply; empty means
	// deploy/ in Repository.
	Deploy string
	// Releases are further files to serve at http://releases.sandbox/, from
	// the name there to the path here.
	Releases map[string]string
	// Program is the sandbox command itself; empty means to build it.
	Program string
	// Owned ends the sandbox with the calling process, however that ends.
	Owned bool
	// KeepFailed keeps a sandbox that did not come up, to be looked at.
	KeepFailed bool
	// Failed is the directory for the logs and objects of a sandbox that did not
	// come up, or in which tests failed; empty keeps none.
	Failed string
	// Progress is told what is going on; nil discards it.
	Progress *progress.Printer
}

// Sandbox is a running sandbox, seen from outside.
type Sandbox struct {
	layout Layout
	owner  *os.File // our end of the pipe of an owned sandbox
}

// ErrRunning is returned by Up when the sandbox is running already.
var ErrRunning = errors.New("is running already")

// ErrInterrupted is returned by Up when its context has ended, and Up has taken down
// and removed everything that it had brought up.
var ErrInterrupted = errors.New("interrupted; nothing is left behind")

// Up builds what a sandbox needs, brings it up and waits until it is ready. If
// something fails, Up takes down what is up by then, unless opts.KeepFailed; if ctx
// ends, it always does, and the error is ErrInterrupted. If taking it down fails as
// well, that error is joined to the first.
func Up(ctx context.Context, opts Options) (*Sandbox, error) {
	if Inside() {
		return nil, errors.New("this is the inside of a sandbox: leave it first; another cannot be brought up in it")
	}
	l, err := NewLayout(opts.Name, opts.State)
	if err != nil {
		return nil, err
	}
	defer opts.Progress.Done()
	selected, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if err := claimState(l); err != nil {
		return nil, err
	}
	release, err := lockState(l)
	if err != nil {
		return nil, err
	}
	defer release()
	if running, err := isRunning(l); err != nil {
		return nil, err
	} else if running {
		return nil, fmt.Errorf("the sandbox in %s %w", l.Dir, ErrRunning)
	}
	if err := clearState(l, opts.Progress); err != nil {
		return nil, err
	}
	s := &Sandbox{layout: l}
	kubernetes, err := s.build(ctx, opts)
	if err != nil {
		return nil, orInterrupted(ctx, errors.Join(err, s.end()))
	}
	err = s.prepare(ctx, opts, kubernetes, selected)
	if err == nil {
		err = s.launch(ctx, opts)
	}
	if err != nil {
		if opts.KeepFailed && ctx.Err() == nil {
			return nil, fmt.Errorf("%w\nthe sandbox is kept as it is, see %s", err, l.Logs())
		}
		if opts.Failed != "" && ctx.Err() == nil {
			err = errors.Join(err, s.keepFailed(ctx, opts.Failed))
		}
		return nil, orInterrupted(ctx, errors.Join(err, s.end()))
	}
	return s, nil
}

// orInterrupted returns ErrInterrupted in place of an error that is only the end of
// ctx. An error that is joined to another one, such as one of cleaning up, is kept.
func orInterrupted(ctx context.Context, err error) error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		return err
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ErrInterrupted
	}
	return err
}

// Open returns the sandbox with the given name, or in the directory state when that
// is not empty. It is an error if that sandbox does not run.
func Open(name, state string) (*Sandbox, error) {
	l, err := NewLayout(name, state)
	if err != nil {
		return nil, err
	}
	running, err := isRunning(l)
	if err != nil {
		return nil, err
	}
	if !running {
		release, err := lockState(l)
		if err == nil {
			release()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err // `up` is still building, or `down` has not finished
		}
		return nil, notRunning(l)
	}
	return &Sandbox{layout: l}, nil
}

// isRunning says whether the sandbox's PID 1 is there.
func isRunning(l Layout) (bool, error) {
	i, err := loadInstance(l)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return i.running()
}

// clearState removes what a sandbox that ended unexpectedly has left.
func clearState(l Layout, out *progress.Printer) error {
	if _, err := os.Lstat(l.settings()); err == nil {
		out.Say("removing what is left in %s of a sandbox that has ended unexpectedly", l.Dir)
	}
	if err := emptyState(l); err != nil {
		return fmt.Errorf("clearing the state directory: %w", err)
	}
	return nil
}

// launch starts PID 1 and follows the sandbox until it is up.
func (s *Sandbox) launch(ctx context.Context, opts Options) error {
	l := s.layout
	output, err := os.OpenFile(l.Log("sandbox"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	var theirs *os.File
	if opts.Owned {
		if theirs, s.owner, err = os.Pipe(); err != nil {
			return err
		}
		defer func() { _ = theirs.Close() }()
	}
	cmd := initCommand(l, theirs, output)
	if err := start(cmd, l); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-ended:
			cancel(fmt.Errorf("the sandbox's first process %s:\n%s", exitWord(err), logTail(l.Log("sandbox"))))
		case <-ctx.Done():
		}
	}()
	err = s.awaitUp(ctx, opts.Progress)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// awaitUp shows what the daemon says until the sandbox is up. The daemon bounds each
// of its waits; the timeout here is for the daemon itself to appear.
func (s *Sandbox) awaitUp(ctx context.Context, out *progress.Printer) error {
	appear, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c := control{s.layout}
	err := poll(appear, 20*time.Millisecond, func(ctx context.Context) error {
		response, err := c.do(ctx, "GET", "/events")
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("waiting for the sandbox's daemon: %w\n%s", err, logTail(s.layout.Log("sandbox")))
	}
	return c.follow(ctx, func(event Event) {
		switch {
		case event.Said != "":
			out.Say("%s", event.Said)
		case event.Status != "":
			out.Status("%s", event.Status)
		}
	})
}

// Down ends the sandbox with every process in it, and removes its state
// directory.
func (s *Sandbox) Down() error {
	release, err := lockState(s.layout)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	return s.end()
}

// Down ends the sandbox with the given name, or in the directory state when that is
// not empty, and removes what a crashed one has left. It reports whether there was
// anything to end or remove; a sandbox that does not exist is no error.
func Down(name, state string) (bool, error) {
	l, err := NewLayout(name, state)
	if err != nil {
		return false, err
	}
	if Inside() {
		return false, errors.New("this is the inside of a sandbox: leave it first, then take it down")
	}
	entries, err := os.ReadDir(l.Dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s := &Sandbox{layout: l}
	return true, s.Down()
}

func (s *Sandbox) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := s.kill(ctx)
	if s.owner != nil {
		err = errors.Join(err, s.owner.Close())
		s.owner = nil
	}
	if err != nil {
		return err
	}
	return removeState(s.layout)
}

// kill ends every process of the sandbox.
func (s *Sandbox) kill(ctx context.Context) error {
	i, err := loadInstance(s.layout)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return i.kill(ctx)
}

// Layout returns the sandbox's state directory.
func (s *Sandbox) Layout() Layout { return s.layout }

// Status asks the sandbox how it is.
func (s *Sandbox) Status(ctx context.Context) (*Status, error) {
	return control{s.layout}.status(ctx)
}

// Component stops or starts a component; see the function Component.
func (s *Sandbox) Component(ctx context.Context, action, name string) error {
	return changeComponent(ctx, s.layout, action, name)
}

// Command returns a command that runs args inside the sandbox, in the working
// directory of this process, with kubectl, the plugin and the interceptor on PATH and
// KUBECONFIG set. Its exit code is that of the command. When ctx ends the command
// gets SIGTERM, and SIGKILL if it has not ended within ten seconds; it also ends when
// this process does.
func (s *Sandbox) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	return s.enter(ctx, nil, args)
}

// Shell is like Command, for an interactive shell: one on a terminal of its own.
func (s *Sandbox) Shell(ctx context.Context, args ...string) (*exec.Cmd, error) {
	return s.enter(ctx, []string{"--foreground"}, args)
}

func (s *Sandbox) enter(ctx context.Context, flags, args []string) (*exec.Cmd, error) {
	i, err := loadInstance(s.layout)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notRunning(s.layout)
	}
	if err != nil {
		return nil, err
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, errors.New("the command nsenter is needed to enter a sandbox: install util-linux")
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, nsenter, slices.Concat([]string{
		"--target", fmt.Sprint(i.PID), "--user", "--net", "--mount", "--pid", "--preserve-credentials", "--",
		s.layout.Program(), "enter", "--state", s.layout.Dir, "--dir", dir,
	}, flags, []string{"--"}, args)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM}
	cmd.Cancel = func() error { return terminateChild(cmd.Process) }
	cmd.WaitDelay = 10 * time.Second
	return cmd, nil
}

// terminateChild sends SIGTERM to the command that nsenter has started; nsenter then
// ends in the same way. Ending nsenter itself would leave the command to be reaped by
// another process.
func terminateChild(nsenter *os.Process) error {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", nsenter.Pid))
	if err == nil {
		for _, child := range strings.Fields(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				return unix.Kill(pid, unix.SIGTERM)
			}
		}
	}
	// nsenter has not started the command yet, or the kernel does not list its
	// children.
	return nsenter.Signal(unix.SIGTERM)
}
