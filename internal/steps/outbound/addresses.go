package outbound

import (
	"fmt"
	"net/netip"
	"syscall"
)

// refused are the addresses that no connection is made to, unless --allow-address names
// them. Private ranges are not refused: Services of the cluster have private addresses.
var refused = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, where clouds have their metadata"},
	{netip.MustParsePrefix("100.100.100.200/32"), "a metadata service (Alibaba Cloud)"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service (Azure)"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved, where Oracle Cloud has its metadata"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved or broadcast"},
	{netip.MustParsePrefix("::/96"), "unspecified, loopback or an obsolete form of an IPv4 address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an IPv4 address behind a local translation"},
	{netip.MustParsePrefix("2001::/32"), "an IPv4 address in a tunnel (Teredo)"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "a metadata service (AWS)"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "a metadata service (Google Cloud)"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

var (
	// translated is the NAT64 prefix: the last four bytes are an IPv4 address (RFC 6052).
	translated = netip.MustParsePrefix("64:ff9b::/96")
	// tunnelled is the 6to4 prefix: the four bytes after it are an IPv4 address (RFC 3056).
	tunnelled = netip.MustParsePrefix("2002::/16")
)

// checkAddress returns a RefusedError if no connection is to be made to an address. An IPv6
// address that stands for an IPv4 address is checked as the IPv4 address.
func checkAddress(address netip.Addr, allowed []netip.Prefix) error {
	plain := address.WithZone("").Unmap()
	for _, prefix := range allowed {
		if prefix.Contains(plain) {
			return nil
		}
	}
	bytes := plain.As16()
	switch {
	case plain.Is6() && translated.Contains(plain):
		return checkAddress(netip.AddrFrom4([4]byte(bytes[12:])), allowed)
	case plain.Is6() && tunnelled.Contains(plain):
		return checkAddress(netip.AddrFrom4([4]byte(bytes[2:6])), allowed)
	}
	for _, r := range refused {
		if r.prefix.Contains(plain) {
			return &RefusedError{Cause: fmt.Errorf("the address %s is not allowed (%s): if requests are to go there, register the plugin with --allow-address=%s", plain, r.what, netip.PrefixFrom(plain, plain.BitLen()))}
		}
	}
	return nil
}

// control checks the address of a connection before it is made. The name has been resolved
// by then, so a DNS answer that changes between two lookups cannot evade the check.
func (c *Client) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Cause: fmt.Errorf("the address %q is none of TCP", address)}
	}
	return checkAddress(at.Addr(), c.opts.Addresses)
}
