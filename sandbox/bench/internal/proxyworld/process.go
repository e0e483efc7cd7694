package proxyworld

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// Process is a program that is measured.
type Process struct {
	// Log is the end of what the program has written.
	Log *Tail

	cmd   *exec.Cmd
	ended chan struct{}
}

// Launch starts a program that runs on these processors. The caller ends it.
func Launch(cmd *exec.Cmd, on unix.CPUSet) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{}), Log: &Tail{}}
	cmd.Stderr = p.Log
	if cmd.Stdout == nil {
		cmd.Stdout = p.Log
	}
	if err := start(cmd, on); err != nil {
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
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// PIDs returns the IDs of the process and of those that it has started.
func (p *Process) PIDs() ([]int, error) {
	more, err := gauge.Children(p.cmd.Process.Pid)
	return append([]int{p.cmd.Process.Pid}, more...), err
}

// Resident returns the resident memory of all PIDs together, in MB.
func (p *Process) Resident() (float64, error) { return p.sum(gauge.Resident) }

// Peak returns the sum of the peak resident memory of each of PIDs, in MB.
func (p *Process) Peak() (float64, error) { return p.sum(gauge.PeakResident) }

func (p *Process) sum(memory func(pid int) (float64, error)) (float64, error) {
	pids, err := p.PIDs()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, pid := range pids {
		mb, err := memory(pid)
		if err != nil {
			return 0, err
		}
		sum += mb
	}
	return sum, nil
}

// CPU returns the processor time that the process itself has taken, see gauge.CPU.
func (p *Process) CPU() (time.Duration, error) { return gauge.CPU(p.cmd.Process.Pid) }

// Await waits until a page is answered with 200, and fails if the program ends
// before.
func (p *Process) Await(ctx context.Context, every time.Duration, url, host string) error {
	return p.AwaitThat(ctx, every, url+" is answered", func() (bool, error) {
		code, _, err := Get(ctx, http.DefaultClient, url, host)
		return err == nil && code == http.StatusOK, nil
	})
}

// AwaitThat waits for a condition, and fails if the program ends before.
func (p *Process) AwaitThat(ctx context.Context, every time.Duration, what string, condition func() (bool, error)) error {
	program := filepath.Base(p.cmd.Path)
	err := gauge.Poll(ctx, every, what, func() (bool, error) {
		select {
		case <-p.ended:
			return false, errors.New("it ended")
		default:
			return condition()
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, p.Log)
	}
	return nil
}
