package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// instance identifies a process uniquely. A process id alone does not: after a crash
// or a reboot it may belong to another process, which must not be killed.
type instance struct {
	PID int `json:"pid"`
	// Start is when the process started, in clock ticks since the boot.
	Start uint64 `json:"start"`
	// Boot is the kernel's id of the boot.
	Boot string `json:"boot"`
}

// identify returns the identity of a running process.
func identify(pid int) (instance, error) {
	start, err := startTime(pid)
	if err != nil {
		return instance{}, err
	}
	boot, err := bootID()
	if err != nil {
		return instance{}, err
	}
	return instance{PID: pid, Start: start, Boot: boot}, nil
}

// running says whether the process, or any thread of it, is still there. A
// zombie, which only its parent can remove, is not.
func (i instance) running() (bool, error) {
	fd, err := i.open()
	if err != nil || fd < 0 {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	ended, err := waitEnded(fd, 0)
	return err == nil && !ended, err
}

// open returns a descriptor that pins the process: no other process can get its id
// meanwhile. It is negative if the process is gone.
func (i instance) open() (fd int, err error) {
	fd, err = unix.PidfdOpen(i.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("process %d: %w", i.PID, err)
	}
	now, err := identify(i.PID)
	if err == nil && now == i {
		return fd, nil
	}
	_ = unix.Close(fd)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		err = nil
	}
	return -1, err
}

// waitEnded waits, up to timeout, until the process has ended with all of its
// threads. The kernel then has ended every process in the PID namespace whose PID 1
// it was; /proc shows its main thread as a zombie earlier than that.
func waitEnded(fd int, timeout time.Duration) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(timeout.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, fmt.Errorf("waiting for a process to end: %w", err)
	}
	return n > 0, nil
}

// reapPatience is how long kill waits for dead processes to be reaped.
const reapPatience = 3 * time.Second

// kill ends the process with SIGKILL, and with it the PID namespace whose PID 1 it
// is, and waits until both are gone. Processes that were started from outside, and
// lost their parent there, have to be reaped by the machine's own PID 1, which in
// some containers never reaps: if only zombies are left, kill waits no longer than
// reapPatience.
func (i instance) kill(ctx context.Context) error {
	fd, err := i.open()
	if err != nil || fd < 0 {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", i.PID))
	if err != nil {
		namespace = "" // a zombie already
	}
	start := time.Now()
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", i.PID, err)
	}
	for {
		ended, err := waitEnded(fd, 100*time.Millisecond)
		if err != nil || ended {
			return err
		}
		if namespace != "" && time.Since(start) > reapPatience && !i.othersAlive(namespace) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("process %d was killed and does not end: %w", i.PID, context.Cause(ctx))
		}
	}
}

// othersAlive says whether a PID namespace holds a process, besides this one,
// that is no zombie.
func (i instance) othersAlive(namespace string) bool {
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		return true
	}
	for _, link := range links {
		dir := filepath.Dir(filepath.Dir(link))
		target, err := os.Readlink(link)
		if err != nil || target != namespace || filepath.Base(dir) == strconv.Itoa(i.PID) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // gone since
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X") {
			return true
		}
	}
	return false
}

// save records the identity, and the process id alone for other programs.
func (i instance) save(l Layout) error {
	content, err := json.Marshal(i)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.instance(), append(content, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(l.PIDFile(), []byte(strconv.Itoa(i.PID)+"\n"), 0o644)
}

// loadInstance returns the recorded identity; the error is fs.ErrNotExist when
// there is none.
func loadInstance(l Layout) (instance, error) {
	content, err := os.ReadFile(l.instance())
	if err != nil {
		return instance{}, err
	}
	var i instance
	if err := json.Unmarshal(content, &i); err != nil {
		return instance{}, fmt.Errorf("%s: %w", l.instance(), err)
	}
	return i, nil
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// startTime returns when a process started, in clock ticks since the boot.
func startTime(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStartTime(string(content))
}

// parseStartTime reads the start time from a line of /proc/PID/stat. The second
// field is the program's name in parentheses, which may itself hold spaces and
// parentheses.
func parseStartTime(line string) (uint64, error) {
	const firstField, startField = 3, 22 // counted from 1, as in proc(5)
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return 0, fmt.Errorf("not a line of /proc/PID/stat: %q", line)
	}
	fields := strings.Fields(line[end+1:])
	if len(fields) <= startField-firstField {
		return 0, fmt.Errorf("not a line of /proc/PID/stat: %q", line)
	}
	start, err := strconv.ParseUint(fields[startField-firstField], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("start time in /proc/PID/stat: %w", err)
	}
	return start, nil
}
