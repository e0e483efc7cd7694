package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// setUpMounts makes the mount namespace the sandbox's own: nothing mounted
// here is seen outside, /proc shows the sandbox's processes, and names are
// resolved by the cluster's DNS.
func setUpMounts(l Layout, log *slog.Logger) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return explainNamespaceError(fmt.Errorf("making the mounts private: %w", err))
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return explainProcError(err)
	}
	for _, file := range []string{"resolv.conf", "hosts", "nsswitch.conf"} {
		if _, err := os.Stat(l.etc(file)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		target := filepath.Join("/etc", file)
		if err := unix.Mount(l.etc(file), target, "", unix.MS_BIND, ""); err != nil {
			log.Warn("programs in the sandbox's shell will not resolve the cluster's names", "file", target, "err", err)
		}
	}
	return nil
}

// explainProcError says what to change where the kernel refuses to mount /proc: it does
// so if something is mounted over a part of the /proc that is there, which a new one would
// uncover. With the old one, process ids would be another namespace's: nothing could be run
// in a container, and the node might kill a process of somebody else.
func explainProcError(err error) error {
	return fmt.Errorf("the kernel refuses the sandbox a /proc of its own: %w\n"+
		"Parts of /proc are masked here, as in most containers (see them with: grep ' /proc/' /proc/self/mountinfo).\n"+
		"Start the container without these masks:\n"+
		"  Docker      --security-opt systempaths=unconfined\n"+
		"  Podman      --security-opt unmask=ALL\n"+
		"  Kubernetes  procMount: Unmasked in the container's securityContext, with hostUsers: false\n"+
		"  LXC, Incus  security.nesting=true", err)
}

// writeNameResolution writes the files in /etc by which commands in the sandbox
// resolve names.
func writeNameResolution(l Layout) error {
	if err := os.MkdirAll(l.etc(""), 0o755); err != nil {
		return err
	}
	resolv := fmt.Sprintf("nameserver %s\nsearch svc.%s %s\noptions ndots:2\n", ClusterDNS, clusterDomain, clusterDomain)
	if err := os.WriteFile(l.etc("resolv.conf"), []byte(resolv), 0o644); err != nil {
		return err
	}
	if content, err := os.ReadFile("/etc/nsswitch.conf"); err == nil {
		if err := os.WriteFile(l.etc("nsswitch.conf"), []byte(askDNS(string(content))), 0o644); err != nil {
			return err
		}
	}
	hosts := fmt.Sprintf("127.0.0.1 localhost\n%s %s\n%s %s\n", NodeIP, NodeName, ReleasesIP, ReleasesHost)
	return os.WriteFile(l.etc("hosts"), []byte(hosts), 0o644)
}

// askDNS changes the content of an nsswitch.conf so that hosts are looked up in the files
// above alone. Other services, such as systemd's (nss-resolve), ask a server outside.
func askDNS(nsswitch string) string {
	var content strings.Builder
	for line := range strings.Lines(nsswitch) {
		if !strings.HasPrefix(strings.TrimSpace(line), "hosts:") {
			content.WriteString(line)
		}
	}
	return strings.TrimRight(content.String(), "\n") + "\nhosts: files dns\n"
}
