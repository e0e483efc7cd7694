// Package demo shows two canaries to a person: the guide's, which is promoted, and
// one whose version fails, which a background analysis aborts. On a sandbox of its
// own it does what the guide says, sends requests all along, shows what happens to
// the Rollout, to its split and to the requests while it happens, and judges it with
// the code of the end-to-end tests (sandbox/testkit): the demo is a test that a person
// watches. The caller chooses the traffic router, the walk through all of Kedify's
// guide, or canaries whose steps act on the world outside.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// ownName is the name of the demo's own sandbox, unless another is asked for. Demos run
// side by side.
func ownName() string { return fmt.Sprintf("demo-%d", os.Getpid()) }

// Options says how to run the demo.
type Options struct {
	// Sandbox is the sandbox to bring up; an empty name means one of its own.
	Sandbox cluster.Options
	// Demo is what to show, as Find returns it.
	Demo Demo
	// Picture is the file, with its whole path, that gets an SVG of the requests; empty for
	// none. Only a demo of two canaries has one.
	Picture string
	// Keep leaves the sandbox up at the end, for a look around.
	Keep bool
	// Out is where the demo is shown. A terminal gets a live view, anything
	// else plain lines.
	Out *os.File
}

// interrupted is the exit code of a demo that was asked to end.
const interrupted = 128 + int(unix.SIGINT)

// startedEnv tells the demo inside when the one outside has begun, in Unix
// milliseconds.
const startedEnv = "SANDBOX_DEMO_STARTED"

// Run runs the demo and returns the exit code: 0 if everything was as claimed, 1
// if not, 130 if it was asked to end. It brings a sandbox up, runs this program
// again inside of it with the same arguments, and takes the sandbox down, also
// when ctx ends; it then returns cluster.ErrInterrupted if nothing is left.
// Called inside a sandbox, it plays in that one.
func Run(ctx context.Context, opts Options) (int, error) {
	if cluster.Inside() {
		root := opts.Sandbox.Repository
		if root == "" {
			var err error
			if root, err = build.FindRepository(); err != nil {
				return 0, err
			}
		}
		began := time.Now()
		if ms, err := strconv.ParseInt(os.Getenv(startedEnv), 10, 64); err == nil {
			began = time.UnixMilli(ms)
		} else if err := NewScreen(opts.Out).Say(opts.Demo.claimed()...); err != nil {
			return 0, err
		}
		code, err := playInside(ctx, opts, root, began)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return interrupted, nil // the process that takes the sandbox down says so
		}
		return code, err
	}
	return runOutside(ctx, opts)
}

// playInside plays a demo, which began at a time that may be before this process was
// started.
func playInside(ctx context.Context, opts Options, root string, began time.Time) (code int, err error) {
	p := &player{ctx: ctx, screen: NewScreen(opts.Out), root: root, began: began, pictureFile: opts.Picture}
	defer func() { err = errors.Join(err, p.screen.Close()) }()
	if !p.play(opts.Demo.play) {
		code = 1
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return code, p.screen.Say(p.table()...)
}

func runOutside(ctx context.Context, opts Options) (code int, err error) {
	began := time.Now()
	if err := NewScreen(opts.Out).Say(opts.Demo.claimed()...); err != nil {
		return 0, err
	}
	sandbox := opts.Sandbox
	sandbox.With = append(sandbox.With, opts.Demo.addons...)
	if sandbox.Name == "" && sandbox.State == "" {
		sandbox.Name = ownName()
	}
	// Without --keep the sandbox ends with this process, however that ends.
	sandbox.Owned = !opts.Keep
	sandbox.KeepFailed = opts.Keep
	s, err := cluster.Up(ctx, sandbox)
	if errors.Is(err, cluster.ErrRunning) {
		return 0, fmt.Errorf("%w: take it down first, or leave --name and --state out for one of the demo's own", err)
	}
	if err != nil {
		return 0, err
	}
	if opts.Keep {
		defer func() {
			_, sayErr := fmt.Fprintf(opts.Out, "\nThe sandbox is kept. Enter it with: sandbox shell --state %s\n", s.Layout().Dir)
			err = errors.Join(err, sayErr)
		}()
	} else {
		defer func() {
			err = errors.Join(err, s.Down())
			if err == nil && code == interrupted {
				err = cluster.ErrInterrupted
			}
		}()
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	inside, err := s.Command(ctx, append([]string{self}, os.Args[1:]...)...)
	if err != nil {
		return 0, err
	}
	inside.Env = append(os.Environ(), fmt.Sprintf("%s=%d", startedEnv, began.UnixMilli()))
	inside.Stdin, inside.Stdout, inside.Stderr = os.Stdin, opts.Out, os.Stderr
	if term.IsTerminal(int(os.Stdin.Fd())) {
		// The terminal sends Ctrl-C to all of its processes. The process inside
		// handles it: it leaves the terminal in order, and then the sandbox ends.
		signal.Ignore(unix.SIGINT)
	}
	code, err = cluster.ExitCode(inside.Run())
	if ctx.Err() != nil { // the process inside was told to end
		code, err = interrupted, nil
	}
	return code, errors.Join(err, showCursor(opts.Out))
}
