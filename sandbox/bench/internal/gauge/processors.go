package gauge

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Processors returns the numbers of the processors that this process may run on, two at
// least: a proxy gets the first ones, its clients and applications the last one.
func Processors() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var numbers []int
	for i := 0; len(numbers) < set.Count(); i++ {
		if set.IsSet(i) {
			numbers = append(numbers, i)
		}
	}
	if len(numbers) < 2 {
		return nil, errors.New("two processors are needed: one is the proxy's, one that of its clients and applications")
	}
	return numbers, nil
}

func setOf(processors []int) (set unix.CPUSet) {
	for _, n := range processors {
		set.Set(n)
	}
	return set
}

// StartOn starts a command that runs on these processors from its first instruction on; on
// those of this process if there are none.
func StartOn(processors []int, cmd *exec.Cmd) error {
	if len(processors) == 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	// A process inherits the processors of the thread that starts it.
	on := setOf(processors)
	if err := unix.SchedSetaffinity(0, &on); err != nil {
		return err
	}
	err := cmd.Start()
	return errors.Join(err, unix.SchedSetaffinity(0, &before))
}

// Move moves all processes of the sandbox, this one included.
func Move(processors []int) error {
	threads, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		return err
	}
	to := setOf(processors)
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
