package gauge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a program that is measured.
type Process struct {
	// Log is the end of what the program has written.
	Log *Tail

	cmd   *exec.Cmd
	ended chan struct{}
}

// Launch starts a program that runs on some processors, on all if none is named. The caller
// ends it.
func Launch(cmd *exec.Cmd, processors ...int) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{}), Log: &Tail{}}
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	if err := StartOn(processors, cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // a wait for the program's answer reports its end
		close(p.ended)
	}()
	return p, nil
}

// End ends a program; nil stands for a program that was not started.
func (p *Process) End() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(unix.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// Await waits until a page is answered with 200, and fails if the program ends
// before.
func (p *Process) Await(ctx context.Context, every time.Duration, url, host string) error {
	err := Poll(ctx, every, url+" is answered", func() (bool, error) {
		select {
		case <-p.ended:
			return false, errors.New("it ended")
		default:
			code, _, err := Get(ctx, http.DefaultClient, url, host)
			return err == nil && code == http.StatusOK, nil
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(p.cmd.Path), err, p.Log)
	}
	return nil
}

// sum adds up a figure of a process and of those that its first thread has started, as nginx
// starts workers.
func sum[T float64 | time.Duration](p *Process, figure func(pid int) (T, error)) (total T, err error) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for _, id := range append(strings.Fields(string(children)), strconv.Itoa(p.cmd.Process.Pid)) {
		pid, err := strconv.Atoi(id)
		if err != nil {
			return 0, err
		}
		of, err := figure(pid)
		if err != nil {
			return 0, err
		}
		total += of
	}
	return total, nil
}

// Resident returns the resident memory, in MB (10^6 bytes).
func (p *Process) Resident() (float64, error) { return sum(p, Resident) }

// Peak returns the most that the resident memory has been, in MB.
func (p *Process) Peak() (float64, error) {
	return sum(p, func(pid int) (float64, error) { return memory(pid, "VmHWM:") })
}

// Resident returns the resident memory of a process, in MB.
func Resident(pid int) (float64, error) { return memory(pid, "VmRSS:") }

func memory(pid int, field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), field)
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("no %s in %s", field, status)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib * 1024 / 1e6, err
}

// tick is the unit of processor time in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// CPU returns the processor time that the process has taken so far, in steps of 10 ms.
func (p *Process) CPU() (time.Duration, error) { return sum(p, processorTime) }

func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name, which may contain anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("no times in %s", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, err
}

// Tail keeps the end of the text that is written to it.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

// Write is part of io.Writer.
func (t *Tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(text), nil
}

// String is part of fmt.Stringer.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
