package cluster

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// setUpMounts makes the mount namespace the sandbox's own: nothing mounted
// here is seen outside, /proc shows the sandbox's processes, and names are
// resolved by the cluster's DNS.
func setUpMounts(l Layout, log *slog.Logger) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	// The kernel refuses this where parts of /proc are masked, as in most containers.
	// Then ps and the like show the processes outside; nothing else depends on it.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		log.Warn("no /proc of the sandbox's own: process ids in it will not fit", "err", err)
	}
	for _, file := range []string{"resolv.conf", "hosts"} {
		target := filepath.Join("/etc", file)
		if err := unix.Mount(l.etc(file), target, "", unix.MS_BIND, ""); err != nil {
			log.Warn("programs in the sandbox's shell will not resolve the cluster's names", "file", target, "err", err)
		}
	}
	return nil
}

// writeNameResolution writes the /etc/resolv.conf and /etc/hosts that commands
// run in the sandbox see.
func writeNameResolution(l Layout) error {
	if err := os.MkdirAll(l.etc(""), 0o755); err != nil {
		return err
	}
	resolv := fmt.Sprintf("nameserver %s\nsearch svc.%s %s\noptions ndots:2\n", ClusterDNS, clusterDomain, clusterDomain)
	if err := os.WriteFile(l.etc("resolv.conf"), []byte(resolv), 0o644); err != nil {
		return err
	}
	hosts := fmt.Sprintf("127.0.0.1 localhost\n%s %s\n%s %s\n", NodeIP, NodeName, ReleasesIP, ReleasesHost)
	return os.WriteFile(l.etc("hosts"), []byte(hosts), 0o644)
}
