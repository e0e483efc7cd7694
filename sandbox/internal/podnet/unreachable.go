package podnet

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// MakeUnreachable drops what the pod of a process sends to an IPv4 address, by connections
// that are open, too, until restore is called.
func MakeUnreachable(pid int, address netip.Addr) (restore func() error, err error) {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("network of process %d: %w", pid, err)
	}
	route := &netlink.Route{Dst: ipNet(netip.PrefixFrom(address, address.BitLen())), Type: unix.RTN_BLACKHOLE}
	inside := func(change func(*netlink.Route) error) error {
		return onOwnThread(func() error {
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("join the network namespace of process %d: %w", pid, err)
			}
			return change(route)
		})
	}
	if err := inside(netlink.RouteAdd); err != nil {
		_ = ns.Close()
		return nil, fmt.Errorf("route to %s: %w", address, err)
	}
	return func() error {
		defer func() { _ = ns.Close() }()
		return inside(netlink.RouteDel)
	}, nil
}
