package gatewayapi

import (
	"slices"
	"strings"
)

// precedence orders matches as the Gateway API has it: the greater wins, from the
// first number that differs. Of equal ones the first rule of the route wins.
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

// noteUsersRules notes the user's rules that win against managed ones made for
// route, and so take requests that the route is for. The rules that it was made
// from do not: what is made from a match is greater, or stands before it.
func (d *draft) noteUsersRules(route managedRoute, made []*madeRule, sources []*rule) {
	for _, r := range d.userRules() {
		if slices.Contains(sources, r) || !d.winsAgainst(r, made) {
			continue
		}
		d.note("%s takes precedence over %s route %q for the requests that both match: it has the more specific path, method, headers or query, or comes first among equals",
			d.describe(r), route.sort(), route.Name)
	}
}

func (d *draft) winsAgainst(r *rule, made []*madeRule) bool {
	for _, users := range objects(d.matchesOf(r.body)) {
		for _, m := range made {
			for _, ours := range m.matches {
				if d.mayOverlap(users, ours.body) && d.precedenceOf(users).compare(d.precedenceOf(ours.body)) >= 0 {
					return true
				}
			}
		}
	}
	return false
}
