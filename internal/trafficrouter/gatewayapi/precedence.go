package gatewayapi

import (
	"reflect"
	"slices"
	"strings"
)

// precedence orders matches as the Gateway API does: the first number that differs
// decides, and the greater one wins. Among equals the first rule of the route wins.
type precedence [5]int

func (d *draft) precedenceOf(match map[string]any) precedence {
	var p precedence
	if d.kind == GRPCRoute {
		method, _ := match["method"].(map[string]any)
		service, _ := method["service"].(string)
		name, _ := method["method"].(string)
		p[0], p[1] = len(service), len(name)
		p[2] = len(objects(match["headers"]))
		return p
	}
	path, _ := match["path"].(map[string]any)
	switch c := conditionIn(path); c.Type {
	case exact:
		p[0] = 1
	case pathPrefix:
		p[1] = len(c.Value)
	}
	if method, _ := match["method"].(string); method != "" {
		p[2] = 1
	}
	p[3], p[4] = len(objects(match["headers"])), len(objects(match["queryParams"]))
	return p
}

func (p precedence) compare(other precedence) int { return slices.Compare(p[:], other[:]) }

// covers tells whether each request that satisfies m satisfies u, too.
func (d *draft) covers(u, m map[string]any) bool {
	if d.kind == HTTPRoute {
		pathU, _ := u["path"].(map[string]any)
		pathM, _ := m["path"].(map[string]any)
		both, o := conditionIn(pathU).andPath(conditionIn(pathM))
		if o != some || both != conditionIn(pathM) {
			return false
		}
		if u["method"] != nil && u["method"] != m["method"] {
			return false
		}
	} else if u["method"] != nil && !reflect.DeepEqual(u["method"], m["method"]) {
		return false
	}
	for _, field := range []string{"headers", "queryParams"} {
		for _, wanted := range objects(u[field]) {
			if !slices.ContainsFunc(objects(m[field]), func(has map[string]any) bool { return implies(has, wanted) }) {
				return false
			}
		}
	}
	return true
}

// implies tells whether a condition on a header or query parameter implies another.
func implies(has, wanted map[string]any) bool {
	hasName, _ := has["name"].(string)
	wantedName, _ := wanted["name"].(string)
	both, o := conditionIn(has).and(conditionIn(wanted))
	return strings.EqualFold(hasName, wantedName) && o == some && both == conditionIn(has)
}

// winsAgainst tells whether a match of a user's rule takes the requests that it has
// in common with a match of another.
func (d *draft) winsAgainst(a *rule, match map[string]any, b *rule, other map[string]any) bool {
	c := d.precedenceOf(match).compare(d.precedenceOf(other))
	return c > 0 || c == 0 && slices.Index(d.rules, a) < slices.Index(d.rules, b)
}

// reaches returns another rule of the user that all requests of a match made from a
// source reach now, or nil: a managed rule would take them from that rule.
func (d *draft) reaches(m match, source *rule) *rule {
	for _, r := range d.userRules() {
		if r == source {
			continue
		}
		for _, users := range objects(d.matchesOf(r.body)) {
			if d.winsAgainst(r, users, source, m.source) && d.covers(users, m.body) {
				return r
			}
		}
	}
	return nil
}
