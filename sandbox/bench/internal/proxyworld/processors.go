package proxyworld

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

// Processors are the processors of this machine, in order. A proxy gets the first
// ones, and its clients and applications get the last one: with two processors in
// all, a proxy that has both shares one with them.
type Processors struct {
	All     unix.CPUSet
	numbers []int
}

// maxProcessors is how many processors a set can hold.
const maxProcessors = 8 * int(unsafe.Sizeof(unix.CPUSet{}))

func newProcessors() (*Processors, error) {
	p := &Processors{}
	if err := unix.SchedGetaffinity(0, &p.All); err != nil {
		return nil, err
	}
	for i := range maxProcessors {
		if p.All.IsSet(i) {
			p.numbers = append(p.numbers, i)
		}
	}
	if len(p.numbers) < 2 {
		return nil, errors.New("two processors are needed: one is the proxy's, one that of its clients and applications")
	}
	return p, nil
}

// Proxy returns the processors of a proxy that has n.
func (p *Processors) Proxy(n int) unix.CPUSet { return setOf(p.numbers[:n]) }

// Load returns the processor of the clients and applications.
func (p *Processors) Load() unix.CPUSet { return setOf(p.numbers[len(p.numbers)-1:]) }

// Others returns the processors of all other processes while a proxy has n.
func (p *Processors) Others(n int) unix.CPUSet {
	return setOf(p.numbers[min(n, len(p.numbers)-1):])
}

func setOf(numbers []int) (set unix.CPUSet) {
	for _, n := range numbers {
		set.Set(n)
	}
	return set
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
	// A process inherits the processors of the thread that starts it.
	if err := unix.SchedSetaffinity(0, &on); err != nil {
		return err
	}
	err := cmd.Start()
	return errors.Join(err, unix.SchedSetaffinity(0, &before))
}

// Move moves all processes of the sandbox.
func Move(to unix.CPUSet) error {
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
