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

// mayOverlap tells whether a request may satisfy two matches.
func (d *draft) mayOverlap(a, b map[string]any) bool {
	method := func(m map[string]any) any { return m["method"] }
	if d.kind == HTTPRoute {
		pathA, _ := a["path"].(map[string]any)
		pathB, _ := b["path"].(map[string]any)
		if _, o := conditionIn(pathA).andPath(conditionIn(pathB)); o == none {
			return false
		}
		if method(a) != nil && method(b) != nil && method(a) != method(b) {
			return false
		}
	} else if methodsDiffer(method(a), method(b)) {
		return false
	}
	for _, field := range []string{"headers", "queryParams"} {
		for _, x := range objects(a[field]) {
			for _, y := range objects(b[field]) {
				nameX, _ := x["name"].(string)
				nameY, _ := y["name"].(string)
				if _, o := conditionIn(x).and(conditionIn(y)); o == none && strings.EqualFold(nameX, nameY) {
					return false
				}
			}
		}
	}
	return true
}

// methodsDiffer tells whether two matches of a GRPCRoute want different methods.
func methodsDiffer(a, b any) bool {
	x, okX := a.(map[string]any)
	y, okY := b.(map[string]any)
	if !okX || !okY || x["type"] != exact || y["type"] != exact {
		return false
	}
	for _, field := range []string{"service", "method"} {
		valueX, _ := x[field].(string)
		valueY, _ := y[field].(string)
		if valueX != "" && valueY != "" && valueX != valueY {
			return true
		}
	}
	return false
}

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

// noteUsersRules warns of the user's rules that take requests that a header or mirror
// route is for, and of those that lose requests to it. Sources are left out: a match
// made from a source's has a greater precedence, or stands before it.
func (d *draft) noteUsersRules(route managedRoute, made []*madeRule, sources []*rule) {
	if route.Name != d.setting {
		return
	}
	for _, r := range d.userRules() {
		if slices.Contains(sources, r) {
			continue
		}
		loses, wins := d.compareTo(r, made)
		if loses {
			d.note(route, "%s takes precedence over %s route %q for the requests that both match: it has the more specific path, method, headers or query, or comes first among equals",
				d.describe(r), route.what(), route.Name)
		}
		if wins {
			d.note(route, "%s route %q takes requests from %s that match both: it has the more specific path, method, headers or query",
				route.what(), route.Name, d.describe(r))
		}
	}
}

// compareTo tells whether managed rules lose requests to a user's rule, and whether
// they take requests that would reach that rule without them.
func (d *draft) compareTo(r *rule, made []*madeRule) (loses, wins bool) {
	for _, users := range objects(d.matchesOf(r.body)) {
		for _, rule := range made {
			for _, m := range rule.matches {
				switch {
				case !d.mayOverlap(users, m.body):
				case d.precedenceOf(users).compare(d.precedenceOf(m.body)) >= 0:
					loses = true
				case d.winsAgainst(r, users, rule.source, m.source):
					wins = true
				}
			}
		}
	}
	return loses, wins
}
