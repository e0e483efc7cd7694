package node

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// defaultCapabilities are the capabilities that container runtimes give to a
// container that drops none.
var defaultCapabilities = map[string]uintptr{
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "FSETID": unix.CAP_FSETID, "FOWNER": unix.CAP_FOWNER,
	"MKNOD": unix.CAP_MKNOD, "NET_RAW": unix.CAP_NET_RAW, "SETGID": unix.CAP_SETGID, "SETUID": unix.CAP_SETUID,
	"SETFCAP": unix.CAP_SETFCAP, "SETPCAP": unix.CAP_SETPCAP, "NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"SYS_CHROOT": unix.CAP_SYS_CHROOT, "KILL": unix.CAP_KILL, "AUDIT_WRITE": unix.CAP_AUDIT_WRITE,
}

// capabilityName is a capability's name in container runtimes: NET_RAW for
// cap_net_raw.
func capabilityName(name corev1.Capability) string {
	return strings.TrimPrefix(strings.ToUpper(string(name)), "CAP_")
}

// capabilities returns the numbers of the capabilities that a container keeps: the
// default ones, less those that it drops, plus those that it adds, if they are
// default ones.
func capabilities(c *corev1.Container) []uintptr {
	keep := maps.Clone(defaultCapabilities)
	if s := c.SecurityContext; s != nil && s.Capabilities != nil {
		for _, name := range s.Capabilities.Drop {
			if capabilityName(name) == "ALL" {
				clear(keep)
			}
			delete(keep, capabilityName(name))
		}
		for _, name := range s.Capabilities.Add {
			if number, ok := defaultCapabilities[capabilityName(name)]; ok {
				keep[capabilityName(name)] = number
			}
		}
	}
	return slices.Sorted(maps.Values(keep))
}
