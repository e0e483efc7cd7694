package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processors are those of this machine as a measurement shares them: one is the
// proxy's alone, another that of its clients and applications.
type processors struct{ all, proxy, load, others unix.CPUSet }

// maxProcessors is how many a set can hold.
const maxProcessors = 8 * int(unsafe.Sizeof(unix.CPUSet{}))

func newProcessors() (*processors, error) {
	p := &processors{}
	if err := unix.SchedGetaffinity(0, &p.all); err != nil {
		return nil, err
	}
	found := 0
	for i := 0; i < maxProcessors && found < 2; i++ {
		if !p.all.IsSet(i) {
			continue
		}
		if found == 0 {
			p.proxy.Set(i)
		} else {
			p.load.Set(i)
		}
		found++
	}
	if found < 2 {
		return nil, errors.New("two processors are needed: one is the proxy's, one that of its clients and applications")
	}
	p.others = p.all
	for i := range maxProcessors {
		if p.proxy.IsSet(i) {
			p.others.Clear(i)
		}
	}
	return p, nil
}

// start starts a command that runs on these processors from its first
// instruction on.
func start(cmd *exec.Cmd, on unix.CPUSet) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	// A process begins with those of the thread that starts it.
	if err := unix.SchedSetaffinity(0, &on); err != nil {
		return err
	}
	err := cmd.Start()
	return errors.Join(err, unix.SchedSetaffinity(0, &before))
}

// move moves all processes of the sandbox.
func move(to unix.CPUSet) error {
	threads, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(filepath.Base(thread))
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, &to); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("choosing the processors of process %d: %w", id, err)
		}
	}
	return nil
}
