package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// refused are the addresses that no connection is made to, unless --allow-address names
// them. Private ranges are not among them: Services of the cluster have private addresses.
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
	{netip.MustParsePrefix("fd00:ec2::/32"), "services of the instance, among them its metadata (AWS)"},
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

// private are the addresses that a host with a wildcard does not reach, besides those that
// package netip calls private: whoever controls one name under it could otherwise reach the
// cluster.
var private = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("fec0::/10")}

// checkAddress returns an error if no connection is to be made to an address. An IPv6 address
// that stands for an IPv4 address is checked as the IPv4 address.
func (c *Client) checkAddress(address netip.Addr, by access) error {
	plain := address.WithZone("").Unmap()
	contains := func(prefix netip.Prefix) bool { return prefix.Contains(plain) }
	if slices.ContainsFunc(c.opts.Addresses, contains) {
		return nil
	}
	bytes := plain.As16()
	switch {
	case plain.Is6() && translated.Contains(plain):
		return c.checkAddress(netip.AddrFrom4([4]byte(bytes[12:])), by)
	case plain.Is6() && tunnelled.Contains(plain):
		return c.checkAddress(netip.AddrFrom4([4]byte(bytes[2:6])), by)
	}
	allow := "--allow-address=" + netip.PrefixFrom(plain, plain.BitLen()).String()
	for _, r := range refused {
		if contains(r.prefix) {
			return refusal("the address %s is not allowed (%s): if requests are to go there, register the plugin with %s", plain, r.what, allow)
		}
	}
	if by == byWildcard && (plain.IsPrivate() || slices.ContainsFunc(private, contains)) {
		return refusal("the address %s is private, and a host that is allowed by a wildcard reaches public addresses alone: allow the host by its name, or register the plugin with %s", plain, allow)
	}
	return nil
}

// strict fails if it gets no answer to one of its queries, such as that for IPv6 addresses.
var strict = &net.Resolver{PreferGo: true, StrictErrors: true}

// checkName resolves a host, and returns an error if one of its addresses is refused. It is
// for requests that an egress proxy makes. The proxy resolves what this pod cannot: a name
// that does not exist here is no error, and every other failure is one.
func (c *Client) checkName(ctx context.Context, host string, by access) error {
	addresses, err := cmp.Or(c.opts.Resolver, strict).LookupNetIP(ctx, "ip", host)
	var failed *net.DNSError
	if errors.As(err, &failed) && failed.IsNotFound && !failed.IsTemporary && !failed.IsTimeout {
		return nil
	}
	if err != nil {
		return fmt.Errorf("it is not known whether the address is allowed: %w", err)
	}
	for _, address := range addresses {
		if err := c.checkAddress(address, by); err != nil {
			return err
		}
	}
	return nil
}
