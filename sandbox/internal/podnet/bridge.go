// Package podnet is the network of the sandbox's node: a bridge that carries the
// node's address, and for each pod a network namespace joined to it by a veth
// pair. It needs CAP_NET_ADMIN over the network namespace it is called in, which
// the creator of a user namespace has; no root outside of it.
package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/vishvananda/netlink"
)

// bridgeName is the node's end of the pod network.
const bridgeName = "pods0"

// bridgeAddress is the hardware address of the pods' gateway. A bridge without an
// assigned address takes the lowest one of its ports, and so changes its address as
// pods come and go; running pods then lose the gateway until they resolve its
// address again.
var bridgeAddress = net.HardwareAddr{0x02, 0, 0, 0, 0, 0x01}

// SetUpNode prepares the current network namespace for the node: loopback up, a
// bridge with nodeIP as the pods' gateway, and a local route for each prefix in
// local, so that programs here can listen on any address of it, for pods, too.
// Calling it again changes nothing.
func SetUpNode(nodeIP netip.Addr, podCIDR netip.Prefix, local ...netip.Prefix) error {
	if !podCIDR.Contains(nodeIP) {
		return fmt.Errorf("node network: node IP %s is not in the pod network %s", nodeIP, podCIDR)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("node network: loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("node network: loopback up: %w", err)
	}
	bridge, err := ensureBridge(nodeIP)
	if err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(nodeIP, podCIDR.Bits()))}
	if err := netlink.AddrReplace(bridge, address); err != nil {
		return fmt.Errorf("node network: address %s on %s: %w", address, bridgeName, err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("node network: %s up: %w", bridgeName, err)
	}
	for _, prefix := range local {
		route := &netlink.Route{
			LinkIndex: lo.Attrs().Index,
			Dst:       ipNet(prefix),
			Scope:     netlink.SCOPE_HOST,
			Table:     localTable,
			Type:      syscall.RTN_LOCAL,
		}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("node network: make %s local: %w", prefix, err)
		}
	}
	return nil
}

// localTable is the routing table of local addresses (RT_TABLE_LOCAL).
const localTable = 255

func ensureBridge(nodeIP netip.Addr) (netlink.Link, error) {
	link, err := netlink.LinkByName(bridgeName)
	if err == nil {
		return link, nil
	}
	var notFound netlink.LinkNotFoundError
	if !errors.As(err, &notFound) {
		return nil, fmt.Errorf("node network: %s: %w", bridgeName, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	attrs.HardwareAddr = bridgeAddress
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("node network: bridge %s: %w (the kernel needs the bridge module, and this process CAP_NET_ADMIN)", bridgeName, err)
	}
	link, err = netlink.LinkByName(bridgeName)
	if err != nil {
		return nil, fmt.Errorf("node network: %s: %w", bridgeName, err)
	}
	return link, nil
}

// hardwareAddr derives an Ethernet address from an IP address. If the kernel chose
// it, a new pod that got the IP address of an earlier one could not be reached
// until its neighbours forget the old Ethernet address; and a bridge changes its
// own with its ports, which would cut off the pods from the node for as long.
func hardwareAddr(ip netip.Addr) net.HardwareAddr {
	b := ip.As4()
	return net.HardwareAddr{0x0a, 0x58, b[0], b[1], b[2], b[3]}
}

// RemoveLeftovers removes the pod networks that a killed node left behind.
// Processes that still run in them are cut off. It must not be called while pods
// run.
func RemoveLeftovers() error {
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("node network: %s: %w (SetUpNode comes first)", bridgeName, err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("node network: list interfaces: %w", err)
	}
	for _, link := range links {
		if link.Attrs().MasterIndex == bridge.Attrs().Index {
			err = errors.Join(err, deleteLink(link.Attrs().Name))
		}
	}
	return err
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
