package outbound

import (
	"fmt"
	"net/netip"
	"syscall"
)

// refused are the addresses that no connection is made to, unless --allow-address has
// them. Private ranges are not among them: Services of the cluster have such addresses.
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
	// translated is where NAT64 has IPv4 addresses, in the last four bytes (RFC 6052).
	translated = netip.MustParsePrefix("64:ff9b::/96")
	// tunnelled is where 6to4 has them, after the first two bytes (RFC 3056).
	tunnelled = netip.MustParsePrefix("2002::/16")
)

// checkAddress returns a RefusedError if no connection is to be made to an address. One
// that stands for an IPv4 address is taken for that.
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
// by then, so that a name whose address changes makes no difference.
func (c *Client) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Cause: fmt.Errorf("the address %q is none of TCP", address)}
	}
	return checkAddress(at.Addr(), c.opts.Addresses)
}
