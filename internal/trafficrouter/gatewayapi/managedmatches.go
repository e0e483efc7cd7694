package gatewayapi

import (
	"fmt"
	"reflect"
)

// matchesFor returns the source's matches as the route restricts them, why some are
// left out, and which requests reach another rule whether or not there is the route.
func (d *draft) matchesFor(route managedRoute, source *rule) (matches []match, skipped, elsewhere []string) {
	for _, from := range objects(d.matchesOf(source.body)) {
		for _, restrict := range route.restrictions() {
			m := match{body: copyOf(from), source: from}
			o := restrict(m.body)
			if other := d.reaches(m, source); o == some && other != nil {
				elsewhere = append(elsewhere, fmt.Sprintf("the requests that %s and the step match reach %s", d.describe(source), d.describe(other)))
				continue
			}
			if o == some && replacesPrefix(source.body) && !reflect.DeepEqual(m.body["path"], from["path"]) {
				skipped = append(skipped, "replaces the prefix of the path in a filter, which takes the rule's own path: leave the path out of the step, or give that path a rule of its own")
				continue
			}
			switch o {
			case some:
				matches = addMatch(matches, m)
			case unknown:
				skipped = append(skipped, "has a regular expression, or gets one from the step, where the other is of another kind: a route cannot ask for both; use the same expression, or exact values")
			}
		}
	}
	matches, shared := withoutShared(matches, d.matchesOf(source.body))
	if shared {
		skipped = append(skipped, "has other matches beside those that the route would share with it, and a gateway may refuse all of a rule that has a match of an earlier one: give those matches a rule of their own")
	}
	return matches, skipped, elsewhere
}

// withoutShared leaves out the matches that the source has unchanged, unless these are
// all matches of the source. If two rules have the same match, the first wins in the
// Gateway API; Contour drops the later rule with all its matches, and their requests.
func withoutShared(matches []match, source []any) (kept []match, left bool) {
	shared := 0
	for _, m := range matches {
		if reflect.DeepEqual(m.body, m.source) {
			shared++
		} else {
			kept = append(kept, m)
		}
	}
	if shared == 0 || shared == len(source) {
		return matches, false
	}
	return kept, true
}

// restrictions returns functions that restrict a match to the requests of the route: one
// for the headers of a header route, one for each match and method of a mirror route.
func (m managedRoute) restrictions() []func(map[string]any) overlap {
	if len(m.Mirror) == 0 {
		return []func(map[string]any) overlap{func(match map[string]any) overlap { return withHeaders(match, m.Headers) }}
	}
	var all []func(map[string]any) overlap
	for _, mirror := range m.Mirror {
		all = append(all, mirror.restrictions()...)
	}
	return all
}
