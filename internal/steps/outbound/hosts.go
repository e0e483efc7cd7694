package outbound

import (
	"fmt"
	"net/netip"
	"net/url"
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
// case are the same.
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
	h := host{}
	rest, under := strings.CutPrefix(text, "*.")
	h.under = under
	if address, err := netip.ParseAddr(rest); err == nil && !under {
		h.name, err = canonicalAddress(address)
		return h, err == nil
	}
	parsed, err := url.Parse("http://" + rest)
	if err != nil || parsed.Host != rest {
		return host{}, false
	}
	var isAddress bool
	h.name, isAddress, err = canonicalHost(parsed.Hostname())
	if err != nil || isAddress && under {
		return host{}, false
	}
	h.port = parsed.Port()
	if strings.HasSuffix(rest, ":") || h.port != "" && !validPort(h.port) {
		return host{}, false
	}
	return h, true
}

// Allow tells whether requests may go to the host and port of a target.
func (h Hosts) Allow(at Target) bool {
	for _, host := range h {
		if host.port != "" && host.port != at.port {
			continue
		}
		if host.under && strings.HasSuffix(at.host, "."+host.name) || !host.under && at.host == host.name {
			return true
		}
	}
	return false
}

// Target is where a request goes.
type Target struct {
	url *url.URL
	// host is the name or address in canonical form, for comparison.
	host string
	port string
}

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
	return targetOf(parsed)
}

var errNoURL = fmt.Errorf("no valid URL: want one such as https://ci.example.com/runs")

func targetOf(parsed *url.URL) (Target, error) {
	switch {
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return Target{}, fmt.Errorf("the URL's scheme is neither https nor http: want a URL such as https://ci.example.com/runs")
	case parsed.Host == "":
		return Target{}, errNoURL
	case parsed.User != nil:
		return Target{}, fmt.Errorf("the URL has a user before its host: give user and password with auth.basic")
	case slices.ContainsFunc(strings.FieldsFunc(parsed.Path, isSlash), isUpwards):
		// A server would resolve the dots, to another path than the configuration's.
		return Target{}, fmt.Errorf("the URL's path has . or .. between its slashes: want the path that is meant")
	}
	canonical, _, err := canonicalHost(parsed.Hostname())
	if err != nil {
		return Target{}, err
	}
	port := parsed.Port()
	switch {
	case port == "" && parsed.Scheme == "https":
		port = "443"
	case port == "":
		port = "80"
	case !validPort(port):
		return Target{}, fmt.Errorf("the URL's port is not one of 1 to 65535")
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
	host := t.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if t.url.Scheme == "https" && t.port == "443" || t.url.Scheme == "http" && t.port == "80" {
		return host
	}
	return host + ":" + t.port
}

func validPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// canonicalHost returns a host in canonical form, for comparison. A host that is neither a
// name nor an address in its usual form is an error: other programs take 2130706433, 0x7f.1
// and 0177.0.0.1 for addresses.
func canonicalHost(text string) (name string, isAddress bool, err error) {
	if address, err := netip.ParseAddr(text); err == nil {
		name, err = canonicalAddress(address)
		return name, true, err
	}
	name = strings.ToLower(strings.TrimSuffix(text, "."))
	labels := strings.Split(name, ".")
	if len(name) > 253 {
		return "", false, errNoHost
	}
	for _, label := range labels {
		if !validLabel(label) {
			return "", false, errNoHost
		}
	}
	if _, err := strconv.ParseUint(labels[len(labels)-1], 0, 64); err == nil {
		return "", false, errNoHost
	}
	return name, false, nil
}

var errNoHost = fmt.Errorf("the URL's host is neither a name such as ci.example.com (in ASCII) nor an address such as 10.0.0.5 or [fd00::5]")

// canonicalAddress returns an address in the form of a host. A zone is an error: it would
// choose the network interface.
func canonicalAddress(address netip.Addr) (string, error) {
	if address.Zone() != "" {
		return "", errNoHost
	}
	return address.Unmap().String(), nil
}

func validLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for _, c := range []byte(label) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
