package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// restartAfterMin and restartAfterMax bound the backoff before a component that died
// is started again. Once a component has run for stableAfter, its backoff begins
// anew.
const (
	restartAfterMin = time.Second
	restartAfterMax = 10 * time.Second
	stableAfter     = time.Minute
)

// supervisor runs the components, each until it is told to stop.
type supervisor struct {
	layout     Layout
	log        *slog.Logger
	components map[string]*supervised
}

// supervised is a component with the state of its process.
type supervised struct {
	component
	changing sync.Mutex // held while it is being started or stopped

	mu       sync.Mutex // guards what follows
	cancel   context.CancelFunc
	ended    chan struct{} // closed when keepRunning has returned
	process  *os.Process   // nil while it does not run
	since    time.Time
	deaths   int
	lastWord string // how it died the last time
	lastLog  string // the end of its log then
}

func newSupervisor(l Layout, log *slog.Logger, components []component) *supervisor {
	s := &supervisor{layout: l, log: log, components: make(map[string]*supervised)}
	for _, c := range components {
		s.components[c.name] = &supervised{component: c}
	}
	return s
}

func (s *supervisor) find(name string) (*supervised, error) {
	c, ok := s.components[name]
	if !ok {
		return nil, fmt.Errorf("no component %q; there are: %s", name, strings.Join(Components(), ", "))
	}
	return c, nil
}

// start makes a component run, if it does not already. It does not wait until
// the component is ready; see await.
func (s *supervisor) start(name string) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		return nil
	}
	if err := os.MkdirAll(s.layout.work(name), 0o755); err != nil {
		return err
	}
	cmd, err := s.spawn(c.component)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.ended = cancel, make(chan struct{})
	c.process, c.since = cmd.Process, time.Now()
	go s.keepRunning(ctx, c, cmd, c.ended)
	return nil
}

// stop ends a component and waits until it is gone: with SIGTERM, and SIGKILL
// if that takes too long; or with SIGKILL at once.
func (s *supervisor) stop(name string, kill bool) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	cancel, ended, process := c.cancel, c.ended, c.process
	c.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel() // from here on its end is expected
	if process != nil && !kill {
		if err := process.Signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping %s: %w", name, err)
		}
		select {
		case <-ended:
		case <-time.After(c.grace):
			s.log.Warn("component did not end in time and is killed", "name", name, "grace", c.grace)
			kill = true
		}
	}
	if process != nil && kill {
		if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("killing %s: %w", name, err)
		}
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		return fmt.Errorf("%s (process %d) was killed and does not end", name, process.Pid)
	}
	c.mu.Lock()
	c.cancel = nil
	c.mu.Unlock()
	s.log.Info("component stopped", "name", name)
	return nil
}

// spawn starts the process of a component, its output added to its log.
func (s *supervisor) spawn(c component) (*exec.Cmd, error) {
	output, err := os.OpenFile(s.layout.Log(c.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	cmd := c.command(s.layout)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	s.log.Info("component started", "name", c.name, "pid", cmd.Process.Pid)
	return cmd, nil
}

// keepRunning waits for the component's process, and starts it again when it
// dies, until ctx ends.
func (s *supervisor) keepRunning(ctx context.Context, c *supervised, cmd *exec.Cmd, ended chan<- struct{}) {
	defer close(ended)
	pause := restartAfterMin
	for {
		word := "cannot be started"
		if cmd != nil {
			word = exitWord(cmd.Wait())
		}
		tail := logTail(s.layout.Log(c.name))
		c.mu.Lock()
		c.process = nil
		if ctx.Err() == nil {
			c.deaths++
			c.lastWord, c.lastLog = word, tail
		}
		if time.Since(c.since) > stableAfter {
			pause = restartAfterMin
		}
		c.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		s.log.Error("component died", "name", c.name, "how", word, "restart_in", pause)
		_, _ = fmt.Fprintln(os.Stderr, tail)

		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, restartAfterMax)
		var err error
		c.mu.Lock()
		if ctx.Err() == nil { // not stopped meanwhile
			if cmd, err = s.spawn(c.component); err == nil {
				c.process, c.since = cmd.Process, time.Now()
			}
		} else {
			cmd = nil
		}
		c.mu.Unlock()
		if err != nil {
			s.log.Error("component cannot be started again", "name", c.name, "err", err)
			cmd = nil
		}
	}
}

// exitWord says how a process ended, to follow its name in a sentence.
func exitWord(err error) string {
	if err == nil {
		return "exited with status 0"
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "ended with " + exit.String()
	}
	return err.Error()
}

// await waits until a component is ready. A component that dies meanwhile is
// an error at once, and so is one that takes longer than timeout; both errors
// end with the last lines of its log.
func (s *supervisor) await(ctx context.Context, name string, timeout time.Duration, status func(format string, args ...any)) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	before := c.snapshot().deaths
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ready after %s", progress.Seconds(timeout)))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	err = poll(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		now := c.snapshot()
		if now.deaths > before {
			fail(errors.New(name + " " + now.lastWord))
			return errors.New("it died while starting")
		}
		status("waiting for %s, %s", name, progress.Seconds(time.Since(start)))
		return c.ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to become ready: %w\n%s", name, err, logTail(s.layout.Log(name)))
	}
	return nil
}

// snapshot is the state of a component at one moment.
type snapshot struct {
	pid      int
	wanted   bool
	since    time.Time
	deaths   int
	lastWord string
	lastLog  string
}

func (c *supervised) snapshot() snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := snapshot{wanted: c.cancel != nil, since: c.since, deaths: c.deaths, lastWord: c.lastWord, lastLog: c.lastLog}
	if c.process != nil {
		s.pid = c.process.Pid
	}
	return s
}
