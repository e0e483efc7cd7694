package gatewayapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// routeOf translates a call that sets a header or mirror route into the terms of a route.
func (d *draft) routeOf(call RouteCall) (managedRoute, error) {
	route, err := managedRouteOf(call, d.ro.MirrorPercent)
	if !d.kind.takes(call) {
		err = fmt.Errorf("a %s takes no %s routes", d.kind, sortOf(call))
	}
	if err != nil {
		err = d.errorf("%s route %q: %w", sortOf(call), call.Name(), err)
	}
	return route, err
}

func managedRouteOf(call RouteCall, hasPercent bool) (managedRoute, error) {
	if call.Header != nil {
		return headerRouteOf(call.Header)
	}
	return mirrorRouteOf(call.Mirror, hasPercent)
}

// asksFor tells whether a rule does what a header or mirror route of an owner does. The
// canary Service of another owner is not known: any one backend may be it. With pingPong,
// it may be the stable Service of now.
func (d *draft) asksFor(r *rule, route managedRoute, owner string) bool {
	isCanary := func(ref map[string]any) bool {
		b := backendOf(ref, d.namespace)
		return owner != d.key() || d.ro.Canary == "" || b.isService(d.canary()) || d.ro.PingPong && b.isService(d.stable())
	}
	if len(route.Mirror) > 0 {
		return slices.ContainsFunc(objects(r.body["filters"]), func(filter map[string]any) bool {
			mirror, _ := filter["requestMirror"].(map[string]any)
			ref, ok := mirror["backendRef"].(map[string]any)
			return ok && isCanary(ref)
		})
	}
	refs := r.refs()
	if len(refs) != 1 || !isCanary(refs[0]) {
		return false
	}
	for _, match := range objects(d.matchesOf(r.body)) {
		for _, h := range route.Headers {
			if !slices.ContainsFunc(objects(match["headers"]), h.isIn) {
				return false
			}
		}
	}
	return true
}

// isIn tells whether a condition of a match is the header's. argoproj-labs/gatewayAPI
// writes a prefix without the anchor, and does not escape it.
func (h header) isIn(object map[string]any) bool {
	name, _ := object["name"].(string)
	c := conditionIn(object)
	return strings.EqualFold(name, h.Name) && (c == h.condition ||
		c.Type == regex && h.Type == regex && strings.HasSuffix(h.Value, ".*") && unescaped(c.Value) == unescaped(h.Value))
}

var escape = regexp.MustCompile(`\\(.)`)

func unescaped(expression string) string {
	return escape.ReplaceAllString(strings.TrimPrefix(expression, "^"), "$1")
}
