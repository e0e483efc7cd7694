package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// spawner starts processes from one thread that lives as long as the spawner: the
// kernel sends the parent-death signal when the thread that forked ends, not when
// its process does.
type spawner struct {
	jobs chan func()
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

// close ends the thread. All processes must have ended.
func (s *spawner) close() { close(s.jobs) }

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.jobs <- func() { result <- cmd.Start() }
	return <-result
}

// process is a started program of a container.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	// done is closed when the process has ended; the fields below are set then.
	done     chan struct{}
	ended    time.Time
	exitCode int // as a shell has it: 128 plus the signal if one ended it
}

// outputs are where a process writes. A nil one is discarded.
type outputs struct {
	stdin          *os.File
	stdout, stderr *os.File
}

// launchProcess starts a process and waits until it has become the program.
// The files in out can be closed afterwards. afterExit runs once the process
// has ended and before done is closed.
func (s *spawner) launchProcess(l launch, network *os.File, out outputs, afterExit func()) (*process, error) {
	l.Parent = os.Getpid()
	spec, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode the launch: %w", err)
	}
	specRead, specWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	failureRead, failureWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pipe: %w", err), specRead.Close(), specWrite.Close())
	}
	defer func() { _ = failureRead.Close() }()

	cmd := exec.Command("/proc/self/exe", "container")
	cmd.Args[0] = "sandbox"
	cmd.Env = []string{} // None of this process's variables; the launch has the container's.
	cmd.Dir = "/"
	if out.stdin != nil {
		cmd.Stdin = out.stdin
	}
	if out.stdout != nil {
		cmd.Stdout = out.stdout
	}
	if out.stderr != nil {
		cmd.Stderr = out.stderr
	}
	cmd.ExtraFiles = []*os.File{specRead, failureWrite, network}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	startErr := s.start(cmd)
	_ = specRead.Close()
	_ = failureWrite.Close()
	if startErr != nil {
		return nil, errors.Join(fmt.Errorf("start: %w", startErr), specWrite.Close())
	}
	p := &process{cmd: cmd, started: time.Now(), done: make(chan struct{})}
	go func() {
		// The exit code is in ProcessState, whatever error Wait returns.
		_ = cmd.Wait()
		p.ended = time.Now()
		p.exitCode = exitCode(cmd.ProcessState)
		if afterExit != nil {
			afterExit()
		}
		close(p.done)
	}()
	// A write to a process that died fails; the reason is in failure or the exit code.
	_, _ = specWrite.Write(spec)
	_ = specWrite.Close()
	failure, err := io.ReadAll(failureRead)
	if err != nil || len(failure) > 0 {
		<-p.done
		return nil, errors.Join(errors.New(string(failure)), err)
	}
	return p, nil
}

func exitCode(state *os.ProcessState) int {
	if state == nil {
		return 255
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// signal sends a signal to the process; one that has ended is left alone.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(sig)
	}
}

// wait reports whether the process ended within d.
func (p *process) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// waitTimeout waits for wg at most d.
func waitTimeout(wg *sync.WaitGroup, d time.Duration) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
