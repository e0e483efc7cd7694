package gatewayapi

import (
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
)

// nameRules names the rules of a managed route <route>, <route>-1 and so on, without
// the names that other rules have. If the route's name is no valid name of a rule, its
// rules have no name.
func (d *draft) nameRules(made []*madeRule) {
	taken := map[string]bool{}
	for _, r := range d.rules {
		if r.owner != d.key() {
			taken[r.name()], taken[r.given] = true, true
		}
	}
	counts := map[string]int{}
	for _, m := range made {
		if len(validation.IsDNS1123Subdomain(m.route)) > 0 {
			continue
		}
		for {
			name := numbered(m.route, counts[m.route])
			counts[m.route]++
			if !taken[name] && (name == m.route || !d.isManagedRoute(name)) {
				m.body["name"], taken[name] = name, true
				break
			}
		}
	}
}

func numbered(name string, n int) string {
	if n == 0 {
		return name
	}
	return name + "-" + strconv.Itoa(n)
}

func (d *draft) isManagedRoute(name string) bool {
	return slices.Contains(d.ro.ManagedRoutes, name) || d.hasRoute(name)
}

// placeRules returns the rules of the route, with the owner's managed rules replaced
// by made. These stand at the end, or right before their source if they would lose
// against it as the later of two equal rules.
func (d *draft) placeRules(made []*madeRule) []*rule {
	var ordered, last []*rule
	before := map[*rule][]*rule{}
	for _, m := range made {
		r := &rule{raw: m.body, body: d.asPresent(m.body), owner: d.key(), route: m.route, before: m.before}
		r.given, _ = m.body["name"].(string)
		if m.before {
			before[m.source] = append(before[m.source], r)
		} else {
			last = append(last, r)
		}
	}
	for _, r := range d.rules {
		if r.owner != d.key() {
			ordered = append(append(ordered, before[r]...), r)
		}
	}
	return append(ordered, last...)
}

// asPresent returns the rule that the route already has instead of an equal new one.
// The name does not count if the route's rule has none: old CRDs drop it.
func (d *draft) asPresent(body map[string]any) map[string]any {
	for _, r := range d.present {
		if (r.name() == "" || r.name() == body["name"]) && reflect.DeepEqual(d.inFull(r.body), d.inFull(body)) {
			return r.body
		}
	}
	return body
}

// inFull is a rule without its name, and with the CRD's defaults.
func (d *draft) inFull(body map[string]any) map[string]any {
	full := copyOf(body)
	delete(full, "name")
	full["matches"] = d.matchesOf(body)
	var refs []any
	for _, ref := range objects(body["backendRefs"]) {
		refs = append(refs, d.withDefaults(ref))
	}
	full["backendRefs"] = refs
	return full
}
