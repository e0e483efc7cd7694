package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownerFD is the descriptor under which PID 1 gets the pipe of its owner: the
// first of exec.Cmd.ExtraFiles.
const ownerFD = 3

// initCommand returns the command that starts a sandbox's PID 1. With an owner, the
// sandbox ends when the other end of that pipe is closed.
func initCommand(l Layout, owner, output *os.File) *exec.Cmd {
	cmd := namespacesCommand(l, "init")
	cmd.Stdout = output
	cmd.Stderr = output
	if owner != nil {
		cmd.Args = append(cmd.Args, "--owned")
		cmd.ExtraFiles = []*os.File{owner}
	}
	return cmd
}

// namespacesCommand returns a command that runs one of the sandbox command's entry
// points as PID 1 of new namespaces. It maps one user only, the caller, to root inside:
// an unprivileged user may map no other, and root gets the same mapping, so that a
// sandbox behaves alike for both.
func namespacesCommand(l Layout, entry string) *exec.Cmd {
	cmd := exec.Command(l.Program(), entry, "--state", l.Dir)
	cmd.Dir = l.Dir
	cmd.Env = initEnvironment(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Setsid:      true, // the terminal's Ctrl-C is for `up`, not for the sandbox
	}
	return cmd
}

// start starts a command of namespacesCommand, and records which process it is.
func start(cmd *exec.Cmd, l Layout) error {
	if err := cmd.Start(); err != nil {
		return explainNamespaceError(fmt.Errorf("starting the sandbox's first process: %w", err))
	}
	identity, err := identify(cmd.Process.Pid)
	if err == nil {
		err = identity.save(l)
	}
	if err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	return nil
}

// initEnvironment returns the variables of the caller's environment that programs
// need to run at all. A KUBECONFIG or a proxy from outside would be wrong inside.
func initEnvironment(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "GOCOVERDIR":
			kept = append(kept, entry)
		}
	}
	return kept
}

// explainNamespaceError adds to an error of creating or setting up namespaces
// what to change on the machine, as far as the kernel's settings tell.
func explainNamespaceError(err error) error {
	if err == nil {
		return nil
	}
	forbidden := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) ||
		errors.Is(err, unix.EUSERS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)
	if !forbidden {
		return err
	}
	return fmt.Errorf("this machine does not let you create the namespaces a sandbox lives in: %w\n%s",
		err, namespaceAdvice(readSysctl))
}

// namespaceAdvice says which settings forbid user namespaces, and what to set. sysctl
// returns the value of a setting, or false if the kernel does not have it.
func namespaceAdvice(sysctl func(name string) (string, bool)) string {
	var advice []string
	set := func(name, value, why string) {
		advice = append(advice, fmt.Sprintf("  sudo sysctl -w %s=%s   # %s", name, value, why))
	}
	if value, ok := sysctl("kernel.unprivileged_userns_clone"); ok && value == "0" {
		set("kernel.unprivileged_userns_clone", "1", "is 0: only root may create user namespaces (Debian)")
	}
	if value, ok := sysctl("user.max_user_namespaces"); ok && value == "0" {
		set("user.max_user_namespaces", "15000", "is 0: nobody may create user namespaces (RHEL, CentOS)")
	}
	if value, ok := sysctl("kernel.apparmor_restrict_unprivileged_userns"); ok && value != "0" {
		set("kernel.apparmor_restrict_unprivileged_userns", "0", "is "+value+": user namespaces have no privileges (Ubuntu 23.10 and later)")
	}
	if len(advice) == 0 {
		return "The usual settings (kernel.unprivileged_userns_clone, user.max_user_namespaces,\n" +
			"kernel.apparmor_restrict_unprivileged_userns) allow it, so something else forbids it:\n" +
			"in a container, its seccomp or AppArmor profile (Docker: --security-opt seccomp=unconfined\n" +
			"--security-opt apparmor=unconfined); or a limit of namespaces that is used up\n" +
			"(user.max_user_namespaces, user.max_net_namespaces)."
	}
	return "To allow it until the next boot:\n" + strings.Join(advice, "\n") +
		"\nand to keep it, put the same settings into a file in /etc/sysctl.d/."
}

func readSysctl(name string) (string, bool) {
	content, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return "", false
	}
	return strings.TrimSpace(string(content)), true
}
