package routes

import (
	"fmt"
	"net/netip"
	"strings"
)

// anyHost is the pattern for requests of any host.
const anyHost = "*"

// The longest name that DNS has, and its longest label, in bytes.
const (
	maxHostLength  = 253
	maxLabelLength = 63
)

// CanonicalHost returns the host of a request (HTTP's Host or :authority) in the form
// in which hosts are compared: in lower case, without port and one trailing dot. It
// does not allocate for a host in lower case.
func CanonicalHost(host string) string {
	return lowerASCII(strings.TrimSuffix(withoutPort(host), "."))
}

// withoutPort cuts off the last colon and what follows it, unless the colon is within
// the brackets of an IPv6 address. Like Envoy, it does not check what follows.
func withoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || colon < strings.LastIndexByte(host, ']') {
		return host
	}
	return host[:colon]
}

// lowerASCII leaves letters outside ASCII alone: to a proxy a host is bytes, and the
// Kelvin sign is no k.
func lowerASCII(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			lower := []byte(s)
			for ; i < len(lower); i++ {
				if c := lower[i]; 'A' <= c && c <= 'Z' {
					lower[i] = c + 'a' - 'A'
				}
			}
			return string(lower)
		}
	}
	return s
}

// hostPattern returns an entry of spec.hosts in the form that canonical hosts
// are compared with, or says what is wrong with it.
func hostPattern(host string) (string, error) {
	if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
		return ipv6Pattern(host, address)
	}
	pattern := CanonicalHost(host)
	if port := strings.TrimPrefix(host[len(withoutPort(host)):], ":"); strings.Trim(port, "0123456789") != "" {
		return "", fmt.Errorf("%q is not a host name: what follows the colon is no port (a scheme or path does not belong here)", host)
	}
	if inner, bracketed := strings.CutPrefix(pattern, "["); bracketed {
		inner, closed := strings.CutSuffix(inner, "]")
		address, err := netip.ParseAddr(inner)
		if !closed || err != nil || !address.Is6() {
			return "", fmt.Errorf("%q is not an IPv6 address in brackets, as in [2001:db8::1]", host)
		}
		return ipv6Pattern(host, address)
	}
	if pattern == anyHost && withoutPort(host) == anyHost {
		return anyHost, nil
	}
	name := strings.TrimPrefix(pattern, "*.")
	switch {
	case name == "":
		return "", fmt.Errorf("%q names no host; expected a name such as app.example.com, *.example.com for all names below it, or * for any", host)
	case len(name) > maxHostLength:
		return "", fmt.Errorf("%q is %d characters long, above the %d of a DNS name", host, len(name), maxHostLength)
	case strings.Contains(name, "*"):
		return "", fmt.Errorf("%q has a star in the wrong place; it stands alone, or for whole labels at the beginning as in *.example.com", host)
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return "", fmt.Errorf("%q has nothing between two dots, or a dot at the beginning", host)
		case len(label) > maxLabelLength:
			return "", fmt.Errorf("%q has a label of %d characters, above the %d of DNS", host, len(label), maxLabelLength)
		}
		for i := range len(label) {
			if !isLabelByte(label[i]) {
				return "", fmt.Errorf("%q is not a host name: it may have letters, digits, hyphens and dots, other letters as punycode (xn--), and no scheme or path", host)
			}
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return "", fmt.Errorf("%q has a label that begins or ends with a hyphen", host)
		}
	}
	return pattern, nil
}

// isLabelByte accepts the underscore too, as browsers and proxies do.
func isLabelByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func ipv6Pattern(host string, address netip.Addr) (string, error) {
	if address.Zone() != "" {
		return "", fmt.Errorf("%q has a zone, which no request's host has", host)
	}
	return "[" + address.String() + "]", nil
}
