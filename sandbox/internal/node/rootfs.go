package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// makeRoot builds the container's file system in l.Root and makes it the root of
// this mount namespace: a tmpfs with /proc, /dev and /sys, the container's
// mounts, and nothing else of this machine.
func makeRoot(l launch) error {
	// What is mounted here must not show outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", l.Root, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return fmt.Errorf("mount the root file system on %s: %w", l.Root, err)
	}
	for _, dir := range append([]string{"/proc", "/sys", "/dev", "/etc", l.WorkDir}, l.Dirs...) {
		if err := os.MkdirAll(filepath.Join(l.Root, dir), 0o755); err != nil {
			return fmt.Errorf("create %s: %w", dir, err)
		}
	}
	tmp := filepath.Join(l.Root, "tmp")
	if err := errors.Join(os.MkdirAll(tmp, 0o755), os.Chmod(tmp, 0o777|fs.ModeSticky)); err != nil {
		return fmt.Errorf("create /tmp: %w", err)
	}
	if err := mountSystem(l.Root); err != nil {
		return err
	}
	for _, m := range l.Mounts {
		if err := bind(l.Root, m); err != nil {
			return err
		}
	}
	if err := switchRoot(l.Root); err != nil {
		return err
	}
	if l.ReadOnlyRoot {
		if err := remountReadOnly("/"); err != nil {
			return fmt.Errorf("make the root file system read-only: %w", err)
		}
	}
	return nil
}

func mountSystem(root string) error {
	// With its submounts: the kernel does not let a process in a user namespace
	// uncover what mounts from outside hide.
	if err := unix.Mount("/proc", filepath.Join(root, "proc"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// The pod's own view of /sys, if the kernel allows it here; programs can do
	// without.
	_ = unix.Mount("sysfs", filepath.Join(root, "sys"), "sysfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")

	dev := filepath.Join(root, "dev")
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		source := "/dev/" + name
		if _, err := os.Stat(source); err != nil {
			continue
		}
		if err := bind(root, bindMount{Source: source, Target: source}); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("create /dev/%s: %w", name, err)
		}
	}
	shm := filepath.Join(dev, "shm")
	if err := os.Mkdir(shm, 0o755); err != nil {
		return fmt.Errorf("create /dev/shm: %w", err)
	}
	if err := unix.Mount("shm", shm, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777,size=64m"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	return nil
}

// bind shows m.Source at m.Target under root, which it creates.
func bind(root string, m bindMount) error {
	target := filepath.Join(root, path.Clean("/"+m.Target))
	info, err := os.Stat(m.Source)
	if err != nil {
		return fmt.Errorf("mount %s: source: %w", m.Target, err)
	}
	flags := uintptr(unix.MS_BIND)
	if info.IsDir() {
		flags |= unix.MS_REC
		err = os.MkdirAll(target, 0o755)
	} else {
		err = createFile(target)
	}
	if err != nil {
		return fmt.Errorf("mount %s: create the mount point: %w", m.Target, err)
	}
	if err := unix.Mount(m.Source, target, "", flags, ""); err != nil {
		return fmt.Errorf("mount %s from %s: %w", m.Target, m.Source, err)
	}
	if m.ReadOnly {
		if err := remountReadOnly(target); err != nil {
			return fmt.Errorf("mount %s read-only: %w", m.Target, err)
		}
	}
	return nil
}

func createFile(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// remountReadOnly keeps the mount's other flags: in a user namespace, flags that
// were set outside must not be dropped.
func remountReadOnly(target string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		return err
	}
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY)
	have := uintptr(stat.Flags)
	flags |= have & (unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC | unix.ST_NOATIME | unix.ST_NODIRATIME)
	switch {
	case have&unix.ST_RELATIME != 0:
		flags |= unix.MS_RELATIME
	case have&unix.ST_NOATIME == 0:
		flags |= unix.MS_STRICTATIME
	}
	return unix.Mount("", target, "", flags, "")
}

// switchRoot makes root, a mount point, the root, and lets go of the old one.
func switchRoot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("enter the root file system: %w", err)
	}
	// With both arguments the same, the old root ends up on top of the new one
	// and is taken off; no directory for it is needed.
	err := unix.PivotRoot(".", ".")
	if err == nil {
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return fmt.Errorf("let go of the old root file system: %w", err)
		}
	} else {
		// The root of some machines, an initramfs, cannot be pivoted.
		if moveErr := unix.Mount(".", "/", "", unix.MS_MOVE, ""); moveErr != nil {
			return fmt.Errorf("switch the root file system: %w", errors.Join(err, moveErr))
		}
		if err := unix.Chroot("."); err != nil {
			return fmt.Errorf("switch the root file system: %w", err)
		}
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("enter the root file system: %w", err)
	}
	return nil
}

// inside resolves a path within dir, following links, and fails if it leaves dir.
func inside(dir, sub string) (string, error) {
	resolved, err := filepath.EvalSymlinks(filepath.Join(dir, sub))
	if err != nil {
		return "", err
	}
	base, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if resolved != base && !strings.HasPrefix(resolved, base+string(filepath.Separator)) {
		return "", fmt.Errorf("%q leads out of the volume", sub)
	}
	return resolved, nil
}
