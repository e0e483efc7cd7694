package outbound

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Hosts are the hosts that requests may go to. An empty list allows nothing.
type Hosts []host

// host is one entry: a name or an address, and the port, which is empty for all ports.
type host struct {
	// name is in lower case and without a dot at its end.
	name string
	// under is true for *.name, which is every name that ends in ".name".
	under bool
	port  string
}

// ParseHosts reads allowed hosts: a name ("ci.example.com"), all names under one
// ("*.example.com", to any depth and without example.com itself) or an address ("10.0.0.5",
// "[fd00::5]"), each with a port ("ci.example.com:8443") or for all ports. Upper and lower
// case are the same. A name that only a wildcard allows reaches public addresses alone.
func ParseHosts(texts []string) (Hosts, error) {
	var hosts Hosts
	for _, text := range texts {
		h, ok := parseHost(text)
		if !ok {
			return nil, fmt.Errorf("%q: want a host without scheme and path, such as ci.example.com, *.example.com, 10.0.0.5 or ci.example.com:8443", text)
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

func parseHost(text string) (host, bool) {
	rest, under := strings.CutPrefix(text, "*.")
	if address, err := netip.ParseAddr(rest); err == nil && address.Is6() {
		rest = "[" + rest + "]"
	}
	at, err := ParseURL("http://" + rest)
	if err != nil || at.url.Host != rest {
		return host{}, false
	}
	_, err = netip.ParseAddr(at.host)
	return host{name: at.host, under: under, port: at.url.Port()}, !under || err != nil
}

// access says how a host is allowed.
type access int

const (
	notAllowed access = iota
	// byWildcard is the access to a host that an entry such as *.example.com alone allows.
	byWildcard
	byName
)

// access returns how requests may go to the host and port of a target.
func (h Hosts) access(at Target) access {
	by := notAllowed
	for _, host := range h {
		switch {
		case host.port != "" && host.port != at.port:
		case !host.under && at.host == host.name:
			return byName
		case host.under && strings.HasSuffix(at.host, "."+host.name):
			by = byWildcard
		}
	}
	return by
}

// Target is where a request goes.
type Target struct {
	url *url.URL
	// host is the name or address in canonical form, for comparison.
	host string
	port string
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

var errNoURL = fmt.Errorf("no valid URL: want one such as https://ci.example.com/runs")

// maxURL bounds a URL, in bytes.
const maxURL = 8 << 10

// ParseURL reads the URL of a request. The error does not hold the URL, which may be a
// secret.
func ParseURL(text string) (Target, error) {
	if len(text) > maxURL {
		return Target{}, fmt.Errorf("the URL has more than %d bytes", maxURL)
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return Target{}, errNoURL
	}
	port := defaultPorts[parsed.Scheme]
	switch {
	case port == "":
		return Target{}, fmt.Errorf("the URL's scheme is neither https nor http: want a URL such as https://ci.example.com/runs")
	case parsed.Host == "":
		return Target{}, errNoURL
	case parsed.User != nil:
		return Target{}, fmt.Errorf("the URL has a user before its host: give user and password with auth.basic")
	case slices.ContainsFunc(strings.FieldsFunc(parsed.Path, isSlash), isUpwards):
		// A server would resolve the dots, to another path than the configuration's.
		return Target{}, fmt.Errorf("the URL's path has . or .. between its slashes: want the path that is meant")
	}
	canonical, err := canonicalHost(parsed.Hostname())
	if err != nil {
		return Target{}, err
	}
	if own := parsed.Port(); own != "" {
		if number, err := strconv.ParseUint(own, 10, 16); err != nil || number == 0 {
			return Target{}, fmt.Errorf("the URL's port is not one of 1 to 65535")
		}
		port = own
	}
	clean := *parsed
	clean.Fragment, clean.RawFragment = "", ""
	clean.Host = strings.TrimSuffix(parsed.Host, ":")
	return Target{url: &clean, host: canonical, port: port}, nil
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

// isUpwards tells whether a segment of a path is "." or "..". Some servers cut a segment off
// at a semicolon, so only the part before it counts.
func isUpwards(part string) bool {
	part, _, _ = strings.Cut(part, ";")
	return part == "." || part == ".."
}

// Origin is the scheme, host and port, which is all that messages show of a URL: its path
// may be a secret too.
func (t Target) Origin() string { return t.url.Scheme + "://" + t.authority() }

func (t Target) authority() string {
	if t.port == defaultPorts[t.url.Scheme] {
		return strings.TrimSuffix(net.JoinHostPort(t.host, ""), ":")
	}
	return net.JoinHostPort(t.host, t.port)
}

// name is a name of DNS. It has no other letters, some of which have an ASCII letter as their
// lower case.
var name = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.|$))+$`)

// canonicalHost returns a host in canonical form, for comparison. A host that is neither a
// name nor an address in its usual form is an error: other programs take 2130706433, 0x7f.1
// and 0177.0.0.1 for addresses. A zone is an error: it would choose the network interface.
func canonicalHost(text string) (string, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return address.Unmap().String(), nil
	}
	host := strings.TrimSuffix(text, ".")
	_, err := strconv.ParseUint(host[strings.LastIndexByte(host, '.')+1:], 0, 64)
	if err == nil || len(host) > 253 || !name.MatchString(host) || strings.HasSuffix(host, ".") {
		return "", errNoHost
	}
	return strings.ToLower(host), nil
}

var errNoHost = fmt.Errorf("the URL's host is neither a name such as ci.example.com (in ASCII) nor an address such as 10.0.0.5 or [fd00::5]")
