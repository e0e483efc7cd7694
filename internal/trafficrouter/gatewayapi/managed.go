package gatewayapi

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// managedRoute is a header or mirror route as a call has asked for it, and the
// rules that were made for it.
type managedRoute struct {
	Name string `json:"name"`
	// Headers are those of a header route: a request has to have all.
	Headers []header `json:"headers,omitempty"`
	// Mirror are the matches of a mirror route: a request has to satisfy one.
	Mirror []mirrorMatch `json:"mirror,omitempty"`
	// Percent is the share of the requests that are mirrored; all when nil.
	Percent *int32       `json:"percent,omitempty"`
	Rules   []madeRecord `json:"rules,omitempty"`
}

// madeRecord says how a rule that was made is known again.
type madeRecord struct {
	Name   string `json:"name,omitempty"`
	Hash   string `json:"hash"`
	Before bool   `json:"before,omitempty"`
}

// what names the sort of route for a message.
func (m managedRoute) what() string {
	if len(m.Mirror) > 0 {
		return "mirror"
	}
	return "header"
}

// madeRule is a rule on the way to the route.
type madeRule struct {
	body    map[string]any
	matches []match
	source  *rule
	route   string
	before  bool
}

// note warns of a header or mirror route once, in the call that sets it.
func (d *draft) note(route managedRoute, format string, args ...any) {
	warning := d.name + ": " + fmt.Sprintf(format, args...)
	if route.Name == d.setting && !slices.Contains(d.warnings, warning) {
		d.warnings = append(d.warnings, warning)
	}
}

// renderManaged makes the rules of the Rollout's header and mirror routes anew from
// the rules as they are now. What would come out as it is stays as it is. When it
// fails it has changed nothing.
func (d *draft) renderManaged() error {
	d.sortRoutes()
	sources := d.ownSources()
	var made []*madeRule
	for _, route := range d.own.Routes {
		rules, err := d.makeRules(route, sources)
		if err != nil {
			return err
		}
		d.noteUsersRules(route, rules, sources)
		made = append(made, rules...)
	}
	d.nameRules(made)
	rules := d.placeRules(made)
	if len(made) > 0 {
		if err := d.checkLimits(rules); err != nil {
			return err
		}
		for _, r := range sources {
			if _, ok := d.records[r]; !ok {
				d.records[r] = ruleRecord{}
			}
		}
	}
	d.rules = rules
	d.recordMade()
	return nil
}

// ownSources are the sources that are not another Rollout's.
func (d *draft) ownSources() []*rule {
	claims := d.claims()
	return slices.DeleteFunc(d.sources(), func(r *rule) bool {
		return claims[r] != "" || len(d.refsTo(r, d.canary())) == 0
	})
}

// sortRoutes puts the routes in the order of managedRoutes; those that are not
// there come last, by name.
func (d *draft) sortRoutes() {
	place := func(name string) int {
		if i := slices.Index(d.ro.ManagedRoutes, name); i >= 0 {
			return i
		}
		return len(d.ro.ManagedRoutes)
	}
	slices.SortStableFunc(d.own.Routes, func(a, b managedRoute) int {
		if byPlace := place(a.Name) - place(b.Name); byPlace != 0 {
			return byPlace
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// makeRules makes the rules of a route, from each source one, or one for each match
// where the source's filters allow no more.
func (d *draft) makeRules(route managedRoute, sources []*rule) ([]*madeRule, error) {
	var made []*madeRule
	var reasons []string
	for _, source := range sources {
		matches, skipped, elsewhere := d.matchesFor(route, source)
		for _, reason := range skipped {
			reason = d.describe(source) + " " + reason
			reasons = append(reasons, reason)
			d.note(route, "%s route %q does not cover all requests: %s", route.what(), route.Name, reason)
		}
		reasons = append(reasons, elsewhere...)
		groups := [][]match{matches}
		if len(matches) > 1 && replacesPrefix(source.body) {
			groups = nil
			for _, m := range matches {
				groups = append(groups, []match{m})
			}
		}
		for _, group := range groups {
			if len(group) > 0 {
				made = append(made, d.makeRule(route, source, group))
			}
		}
	}
	if len(made) > 0 {
		return made, nil
	}
	if len(reasons) == 0 {
		reasons = []string{"no rule that the Rollout splits matches any of the requests that it is for"}
	}
	return nil, d.errorf("no rule can be made for %s route %q: %s", route.what(), route.Name, strings.Join(slices.Compact(reasons), "; "))
}

// matchesFor are the source's matches as the route restricts them, why some cannot
// be, and which requests reach other rules without and with the route.
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

// withoutShared leaves out the matches that are the source's own, unless those are
// all that the source has. Of two rules with one match the Gateway API has the first
// win; Contour drops the later rule with all its matches, and their requests.
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

// restrictions are the ways in which a request may be one that the route is for.
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

// replacesPrefix tells whether a filter of a rule, or of one of its backendRefs,
// replaces the prefix that the rule matches. The CRD takes one match with a prefix
// then.
func replacesPrefix(body map[string]any) bool {
	filters := objects(body["filters"])
	for _, ref := range objects(body["backendRefs"]) {
		filters = append(filters, objects(ref["filters"])...)
	}
	for _, filter := range filters {
		for _, field := range []string{"urlRewrite", "requestRedirect"} {
			rewrite, _ := filter[field].(map[string]any)
			path, _ := rewrite["path"].(map[string]any)
			if path["replacePrefixMatch"] != nil {
				return true
			}
		}
	}
	return false
}

// makeRule makes a rule with all that its source has.
func (d *draft) makeRule(route managedRoute, source *rule, matches []match) *madeRule {
	body := copyOf(source.body)
	delete(body, "name")
	list := make([]any, len(matches))
	made := &madeRule{body: body, matches: matches, source: source, route: route.Name}
	for i, m := range matches {
		list[i] = m.body
		if d.precedenceOf(m.body) == d.precedenceOf(m.source) {
			made.before = true
		}
	}
	body["matches"] = list
	canary := d.refsTo(source, d.canary())[0]
	if len(route.Mirror) > 0 {
		filters, _ := body["filters"].([]any)
		body["filters"] = append(filters, any(d.mirrorFilter(canary, route.Percent)))
	} else {
		ref := copyOf(canary)
		one := int64(1)
		setWeight(ref, &one)
		body["backendRefs"] = []any{ref}
	}
	return made
}

// nameRules names the rules of a route <route>, <route>-1 and so on, past the names
// that others have. One that is no valid name of a rule is left out.
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
	return slices.Contains(d.ro.ManagedRoutes, name) || slices.ContainsFunc(d.own.Routes, func(m managedRoute) bool { return m.Name == name })
}

// placeRules returns the rules of the route with those that were made in place of
// those that were there: at the end, or before their source where they would lose
// against it as the later one among equals.
func (d *draft) placeRules(made []*madeRule) []*rule {
	var present []*rule
	for _, r := range d.rules {
		if r.owner == d.key() {
			present = append(present, r)
		}
	}
	var ordered, last []*rule
	before := map[*rule][]*rule{}
	for _, m := range made {
		r := &rule{raw: m.body, body: d.asPresent(m.body, present), owner: d.key(), route: m.route, before: m.before}
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

// asPresent returns a rule as the route has it already, if that says the same but
// for the name, which old CRDs drop.
func (d *draft) asPresent(body map[string]any, present []*rule) map[string]any {
	for _, r := range present {
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

// recordMade notes how the rules that were made are known again.
func (d *draft) recordMade() {
	for i := range d.own.Routes {
		d.own.Routes[i].Rules = nil
		for _, r := range d.rules {
			if r.owner == d.key() && r.route == d.own.Routes[i].Name {
				d.own.Routes[i].Rules = append(d.own.Routes[i].Rules, madeRecord{r.given, d.fingerprint(r.body), r.before})
			}
		}
	}
}
