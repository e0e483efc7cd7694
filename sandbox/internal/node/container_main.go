package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// File descriptors that the node hands to a container's process before it
// becomes the container's program.
const (
	launchFD  = 3 // the launch as JSON, to the end of the file
	failureFD = 4 // takes the text of an error; closed without one by exec
	networkFD = 5 // the pod's network namespace
)

// launch is all that a process needs to become a container's program.
type launch struct {
	// Parent is the process ID of the node: the container must not outlive it.
	Parent int `json:"parent"`
	// Root is an empty directory that the container's file system is made in.
	Root string `json:"root"`
	// Hostname of the container.
	Hostname string `json:"hostname"`
	// Dirs are directories to create in the root.
	Dirs []string `json:"dirs"`
	// Mounts are made in order.
	Mounts []bindMount `json:"mounts"`
	// ReadOnlyRoot leaves only the mounts writable.
	ReadOnlyRoot bool `json:"readOnlyRoot"`
	// WorkDir is created.
	WorkDir string `json:"workDir"`
	// Argv is the command line. A program without a slash is looked for in PATH of Env.
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	// Capabilities are all that the program has, by number.
	Capabilities []uintptr `json:"capabilities"`
	// NoNewPrivileges keeps the program from gaining privileges.
	NoNewPrivileges bool `json:"noNewPrivileges"`
	// Enter is the ID of a process whose container is joined; Root, Dirs, Mounts
	// and Hostname do not apply then. Zero makes a new container.
	Enter int `json:"enter,omitempty"`
}

// bindMount shows a file or directory of this machine in a container.
type bindMount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly"`
}

// ContainerMain is the entry point of `sandbox container`, which only the node
// calls: the process it started in new mount and UTS namespaces makes the
// container around itself and becomes its program. It returns the exit code if
// that fails; the node then has the reason from failureFD.
func ContainerMain(args []string) int {
	// Namespaces and capabilities belong to a thread until exec makes this the only one.
	runtime.LockOSThread()
	unix.CloseOnExec(failureFD)
	failure := os.NewFile(failureFD, "failure")
	if len(args) != 0 || failure == nil {
		fmt.Fprintln(os.Stderr, "sandbox container: only the sandbox's node calls this")
		return 2
	}
	err := become()
	if _, werr := io.WriteString(failure, err.Error()); werr != nil {
		fmt.Fprintln(os.Stderr, "sandbox container:", err)
	}
	return 128
}

// become returns only if it fails.
func become() error {
	in := os.NewFile(launchFD, "launch")
	var l launch
	if err := json.NewDecoder(in).Decode(&l); err != nil {
		return fmt.Errorf("read the launch: %w", err)
	}
	_ = in.Close()
	if err := unix.Setns(networkFD, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("join the pod's network: %w", err)
	}
	_ = unix.Close(networkFD)
	if l.Enter != 0 {
		if err := enter(l.Enter); err != nil {
			return err
		}
	} else {
		if err := unix.Sethostname([]byte(l.Hostname)); err != nil {
			return fmt.Errorf("set the host name: %w", err)
		}
		if err := makeRoot(l); err != nil {
			return err
		}
	}
	if err := os.Chdir(l.WorkDir); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	program, err := lookProgram(l.Argv[0], l.Env)
	if err != nil {
		return err
	}
	unix.Umask(0o022)
	// The parent-death signal belongs to a thread, and the thread that calls exec
	// need not be the one that the node started.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the node: %w", err)
	}
	if unix.Getppid() != l.Parent {
		return errors.New("the node has ended")
	}
	if err := dropPrivileges(l.Capabilities, l.NoNewPrivileges); err != nil {
		return err
	}
	err = unix.Exec(program, l.Argv, l.Env)
	return fmt.Errorf("exec %s: %w", program, err)
}

// enter moves this thread into the container of a process.
func enter(pid int) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return fmt.Errorf("the container's mounts: %w", err)
	}
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil {
		return fmt.Errorf("the container's root: %w", err)
	}
	uts, err := os.Open(fmt.Sprintf("/proc/%d/ns/uts", pid))
	if err != nil {
		return fmt.Errorf("the container's host name: %w", err)
	}
	// A thread that shares its root with others cannot change mount namespaces.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("join the container's mounts: %w", err)
	}
	if err := unix.Setns(int(uts.Fd()), unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("join the container's host name: %w", err)
	}
	if err := unix.Fchdir(int(root.Fd())); err != nil {
		return fmt.Errorf("enter the container's root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the container's root: %w", err)
	}
	return nil
}

// lookProgram finds the file to execute, in the container.
func lookProgram(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := defaultPath
	for _, v := range env {
		if after, ok := strings.CutPrefix(v, "PATH="); ok {
			path = after
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("exec: %q: %w (PATH is %s)", name, exec.ErrNotFound, path)
}

// defaultPath is PATH for images that set none, as container runtimes have it.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// dropPrivileges limits what exec may leave the program with: the user is root of
// the sandbox's user namespace, and exec gives that user the bounding set.
func dropPrivileges(keep []uintptr, noNew bool) error {
	// In this order, as dropping needs CAP_SETPCAP.
	for capability := uintptr(0); ; capability++ {
		have, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0)
		if err != nil {
			break // Past the last one that this kernel knows.
		}
		if have == 0 || slices.Contains(keep, capability) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	if noNew {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no new privileges: %w", err)
		}
	}
	return nil
}
