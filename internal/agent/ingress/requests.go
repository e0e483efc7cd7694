package ingress

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// anyHost is the host of an HTTPScaledObject that takes requests of any.
const anyHost = "*"

// requests are those that a path of an Ingress admits: Host is a name, *. and a name for
// those one label below it, or empty for any; Path is a prefix, or the whole path if Exact.
type requests struct {
	host, path string
	exact      bool
}

// requestsOf returns the requests of a path. It is false if its type leaves to the Ingress's
// controller what the path means.
func requestsOf(host string, p networkingv1.HTTPIngressPath) (requests, bool) {
	if p.PathType == nil || *p.PathType == networkingv1.PathTypeImplementationSpecific {
		return requests{host: host}, false
	}
	exact := *p.PathType == networkingv1.PathTypeExact
	return requests{host: host, path: cleanPath(p.Path, exact), exact: exact}, true
}

// cleanPath returns a prefix without slashes at its end: with them it admits the same.
func cleanPath(path string, exact bool) string {
	if exact {
		return path
	}
	return strings.TrimRight(path, "/")
}

// isBelow tells whether a path is a prefix, or below it; segments are compared as a whole.
func isBelow(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// rule is one host and one path prefix of an HTTPScaledObject; the prefix of all paths is
// empty.
type rule struct{ host, prefix string }

// coversHost tells whether the rule's host has all requests of an Ingress's host.
func (r rule) coversHost(host string) bool {
	name, wildcard := strings.CutPrefix(r.host, "*.")
	switch {
	case r.host == anyHost:
		return true
	case !wildcard:
		return r.host == host
	}
	below, isWildcard := strings.CutPrefix(host, "*.")
	return isWildcard && below == name || strings.HasSuffix(below, "."+name)
}

// overlapsHost tells whether the rule's host has any requests of an Ingress's host.
func (r rule) overlapsHost(host string) bool {
	if host == "" || r.coversHost(host) {
		return true
	}
	below, isWildcard := strings.CutPrefix(host, "*.")
	label, rest, _ := strings.Cut(r.host, ".")
	return isWildcard && label != anyHost && rest == below
}

// covers tells whether the rule has all of the requests, and overlaps whether it has any.
func (r rule) covers(q requests) bool { return r.coversHost(q.host) && isBelow(q.path, r.prefix) }

func (r rule) overlaps(q requests) bool {
	return r.overlapsHost(q.host) && (isBelow(q.path, r.prefix) || !q.exact && isBelow(r.prefix, q.path))
}

// takenBy tells whether another path of an Ingress takes all that the rule and the requests
// have in common: Ingresses send a request to the most specific host, and there to the longest
// path.
func (r rule) takenBy(other, q requests) bool {
	shared := q.path
	if len(r.prefix) > len(shared) {
		shared = r.prefix
	}
	if other.exact || !isBelow(shared, other.path) {
		return false
	}
	if other.host == q.host {
		return len(other.path) > len(q.path)
	}
	return other.host == r.host && !strings.HasPrefix(r.host, anyHost)
}

// rulesOf returns the rules of an HTTPScaledObject.
func rulesOf(hosts, prefixes []string) []rule {
	if len(hosts) == 0 {
		hosts = []string{anyHost}
	}
	if len(prefixes) == 0 {
		prefixes = []string{"/"}
	}
	var rules []rule
	for _, host := range hosts {
		for _, prefix := range prefixes {
			rules = append(rules, rule{host: routes.CanonicalHost(host), prefix: cleanPath("/"+strings.TrimPrefix(prefix, "/"), false)})
		}
	}
	return rules
}
