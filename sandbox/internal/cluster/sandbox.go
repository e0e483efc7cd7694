// Package cluster runs a whole Kubernetes cluster on one Linux machine, in
// namespaces of its own, without root and without Docker: etcd, the control
// plane, a node that runs pods as processes, and Argo Rollouts with the plugin.
//
// Up brings one up from outside; what then runs inside it, by way of Command,
// reaches the cluster with RESTConfig.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/envoy"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// Options says what sandbox to bring up. The zero value is the default sandbox
// with Argo Rollouts and the plugin built from this repository.
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
	// Plugin is the plugin's binary; empty means to build it from Repository.
	Plugin string
	// InterceptorProgram is the interceptor's binary; empty means to build it
	// from Repository.
	InterceptorProgram string
	// Interceptor installs the interceptor from Deploy. Its image is there
	// without that, too.
	Interceptor bool
	// Envoy is the Envoy behind the image envoyproxy/envoy; empty means what
	// envoy.Find finds, and no such image where that is none.
	Envoy string
	// Deploy is the directory of the manifests users apply; empty means
	// deploy/ in Repository.
	Deploy string
	// Bare leaves out Argo Rollouts, the plugin and the interceptor.
	Bare bool
	// Releases are further files to serve at http://releases.sandbox/, from
	// the name there to the path here.
	Releases map[string]string
	// Program is the sandbox command itself; empty means to build it.
	Program string
	// Owned ends the sandbox with the calling process, however that ends.
	Owned bool
	// KeepFailed keeps a sandbox that did not come up, to be looked at.
	KeepFailed bool
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

// ErrInterrupted is returned by Up when its context has ended, and everything
// that was up by then is down and removed again.
var ErrInterrupted = errors.New("interrupted; nothing is left behind")

// Up builds what a sandbox needs, brings it up and waits until it is ready.
// When something fails, what is up by then is taken down, unless
// opts.KeepFailed; when ctx ends, always, and the error is ErrInterrupted. An
// error of taking it down is joined to the one that led to that.
func Up(ctx context.Context, opts Options) (*Sandbox, error) {
	if Inside() {
		return nil, errors.New("this is the inside of a sandbox: leave it first; another cannot be brought up in it")
	}
	l, err := NewLayout(opts.Name, opts.State)
	if err != nil {
		return nil, err
	}
	defer opts.Progress.Done()
	// Before a long build, not after it.
	if err := checkState(l); err != nil {
		return nil, err
	}
	if running, err := isRunning(l); err != nil {
		return nil, err
	} else if running {
		return nil, fmt.Errorf("the sandbox in %s %w", l.Dir, ErrRunning)
	}
	if err := opts.checkPrograms(ctx); err != nil {
		return nil, err
	}
	if opts.Repository == "" {
		if opts.Repository, err = build.FindRepository(); err != nil {
			return nil, err
		}
	}
	cluster, err := build.Ensure(ctx, build.Options{Repository: opts.Repository, Cache: opts.Cache, Progress: opts.Progress})
	if err != nil {
		return nil, orInterrupted(ctx, err)
	}

	if err := claimState(l); err != nil {
		return nil, err
	}
	release, err := lockState(l)
	if err != nil {
		return nil, err
	}
	defer release()
	// Another `up` may have been quicker.
	if running, err := isRunning(l); err != nil {
		return nil, err
	} else if running {
		return nil, fmt.Errorf("the sandbox in %s %w", l.Dir, ErrRunning)
	}
	if err := clearState(l, opts.Progress); err != nil {
		return nil, err
	}
	s := &Sandbox{layout: l}
	err = s.prepare(ctx, opts, cluster)
	if err == nil {
		err = s.launch(ctx, opts)
	}
	if err != nil {
		if opts.KeepFailed && ctx.Err() == nil {
			return nil, fmt.Errorf("%w\nthe sandbox is kept as it is, see %s", err, l.Logs())
		}
		return nil, orInterrupted(ctx, errors.Join(err, s.end()))
	}
	return s, nil
}

// checkPrograms refuses programs that could not run in the sandbox, and
// completes opts.Envoy.
func (o *Options) checkPrograms(ctx context.Context) error {
	if o.Bare {
		return nil
	}
	for what, path := range map[string]string{"plugin": o.Plugin, "interceptor": o.InterceptorProgram} {
		if path == "" { // to be built
			continue
		}
		if err := checkProgram(what, path); err != nil {
			return err
		}
	}
	if o.Envoy == "" {
		var err error
		if o.Envoy, err = envoy.Find(envoy.Options{Cache: o.Cache}); err != nil || o.Envoy == "" {
			return err
		}
	}
	_, err := image.Envoy(ctx, o.Envoy)
	return err
}

// orInterrupted returns ErrInterrupted in place of an error that is the end of
// ctx and nothing else: one of cleaning up may be joined to it.
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

// Open returns the sandbox with the given name, or in the directory state when
// that is not empty. It is an error if it does not run.
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

// prepare fills the state directory with all that the daemon needs.
func (s *Sandbox) prepare(ctx context.Context, opts Options, cluster *build.Cluster) error {
	l := s.layout
	module := filepath.Join(opts.Repository, "sandbox")
	for _, dir := range []string{l.Logs(), l.Bin(), filepath.Dir(l.Demo())} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if opts.Program != "" {
		if err := copyFile(opts.Program, l.Program(), 0o755); err != nil {
			return err
		}
	} else if err := build.Program(ctx, module, "./cmd/sandbox", l.Program(), opts.Progress); err != nil {
		return err
	}
	if err := build.Program(ctx, module, "./cmd/rollouts-demo", l.Demo(), opts.Progress); err != nil {
		return err
	}
	if err := s.publishReleases(ctx, opts); err != nil {
		return err
	}
	if !opts.Bare {
		if err := s.placeInterceptor(ctx, opts); err != nil {
			return err
		}
	}
	for _, tool := range []string{"kubectl", "kubectl-argo-rollouts"} {
		if err := os.Symlink(cluster.Program, filepath.Join(l.Bin(), tool)); err != nil {
			return err
		}
	}
	if err := writePKI(l, time.Now()); err != nil {
		return fmt.Errorf("making the cluster's keys: %w", err)
	}
	if err := writeKubeconfigs(l); err != nil {
		return err
	}
	if err := writeNameResolution(l); err != nil {
		return err
	}
	deploy := opts.Deploy
	if deploy == "" {
		deploy = filepath.Join(opts.Repository, "deploy")
	}
	deploy, err := filepath.Abs(deploy)
	if err != nil {
		return err
	}
	name := opts.Name
	if name == "" {
		name = filepath.Base(l.Dir)
	}
	return settings{
		Name: name, Bare: opts.Bare, Program: cluster.Program, Controller: cluster.Dir, Manifests: cluster.Manifests,
		Deploy: deploy, CRDs: filepath.Join(module, "manifests", "crds"),
		Envoy: opts.Envoy, Interceptor: opts.Interceptor && !opts.Bare,
	}.save(l)
}

func (s *Sandbox) publishReleases(ctx context.Context, opts Options) error {
	l := s.layout
	files := make(map[string]string)
	for name, path := range opts.Releases {
		files[name] = path
	}
	if !opts.Bare {
		plugin := opts.Plugin
		if plugin == "" {
			plugin = filepath.Join(filepath.Dir(l.Demo()), "rollouts-plugin-kedify")
			if err := build.Program(ctx, opts.Repository, "./cmd/rollouts-plugin-kedify", plugin, opts.Progress); err != nil {
				return err
			}
		}
		files[PluginAsset] = plugin
		link := filepath.Join(l.Bin(), "rollouts-plugin-kedify")
		if err := os.Symlink(l.Plugin(), link); err != nil {
			return err
		}
	}
	return publish(l, files)
}

// placeInterceptor puts the interceptor where its image and PATH find it.
func (s *Sandbox) placeInterceptor(ctx context.Context, opts Options) error {
	l := s.layout
	if opts.InterceptorProgram != "" {
		if err := copyFile(opts.InterceptorProgram, l.Interceptor(), 0o755); err != nil {
			return err
		}
	} else if err := build.Program(ctx, opts.Repository, "./cmd/interceptor", l.Interceptor(), opts.Progress); err != nil {
		return err
	}
	return os.Symlink(l.Interceptor(), filepath.Join(l.Bin(), "interceptor"))
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
	if err := cmd.Start(); err != nil {
		return explainNamespaceError(fmt.Errorf("starting the sandbox's first process: %w", err))
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	identity, err := identify(cmd.Process.Pid)
	if err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	if err := identity.save(l); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}

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

// awaitUp shows what the daemon says until the sandbox is up. The daemon bounds
// each of its waits; this one is for the daemon itself to appear.
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

// Down ends the sandbox with the given name, or in the directory state when
// that is not empty, and removes what one that crashed has left. It reports
// whether there was anything; a sandbox that is not there is no error.
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
	i, err := loadInstance(s.layout)
	if err == nil {
		err = i.kill(ctx)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if s.owner != nil {
		err = errors.Join(err, s.owner.Close())
		s.owner = nil
	}
	if err != nil {
		return err
	}
	return removeState(s.layout)
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
// directory of this process, with kubectl, the plugin and the interceptor on PATH
// and KUBECONFIG
// set. Its exit code is that of the command. When ctx ends the command gets
// SIGTERM, and SIGKILL if it does not end by that within ten seconds; it also
// ends when this process does.
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

// terminateChild asks the command that nsenter has started to end; nsenter
// then ends as that does. Ending nsenter itself would leave the command to be
// reaped by somebody else.
func terminateChild(nsenter *os.Process) error {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", nsenter.Pid))
	if err == nil {
		for _, child := range strings.Fields(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				return unix.Kill(pid, unix.SIGTERM)
			}
		}
	}
	// It has not started the command yet, or the kernel does not tell.
	return nsenter.Signal(unix.SIGTERM)
}

// Names lists the sandboxes of this user that have a state directory in the
// default place.
func Names() ([]string, error) {
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if isState(Layout{Dir: filepath.Join(root, entry.Name())}) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}
