package gatewayapi

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
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

// madeRecord identifies a managed rule on the route: by name, else by fingerprint.
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

// madeRule is a managed rule that is not on the route yet.
type madeRule struct {
	body    map[string]any
	matches []match
	source  *rule
	route   string
	before  bool
}

// announce warns of a header or mirror route in the call that sets it.
func (d *draft) announce(route managedRoute, format string, args ...any) {
	if slices.Contains(d.announced, route.Name) {
		d.warn(format, args...)
	}
}

// hasRoute tells whether the owner has a header or mirror route of that name.
func (d *draft) hasRoute(name string) bool {
	return slices.ContainsFunc(d.own.Routes, func(m managedRoute) bool { return m.Name == name })
}

// hasEqual tells whether the owner has a header or mirror route that asks for the same.
func (d *draft) hasEqual(route managedRoute) bool {
	return slices.ContainsFunc(d.own.Routes, func(m managedRoute) bool {
		m.Rules, route.Rules = nil, nil
		return reflect.DeepEqual(m, route)
	})
}

// putRoute puts a header or mirror route into the owner's entry, in place of one of that
// name.
func (d *draft) putRoute(route managedRoute) {
	others := filter(d.own.Routes, func(m managedRoute) bool { return m.Name != route.Name })
	d.own.Routes = slices.Concat(others, []managedRoute{route})
}

// renderManaged makes the rules of the owner's header and mirror routes again from
// the present rules. A managed rule that would come out the same stays as it is. If it
// fails, only the rules of routes that the owner does not have any more are gone.
func (d *draft) renderManaged() error {
	before := d.rules
	for _, route := range d.own.Routes {
		d.dropUnrecorded(route.Name)
	}
	rules, err := d.managedRules()
	if err != nil {
		d.rules = filter(before, func(r *rule) bool { return r.owner != d.key() || d.hasRoute(r.route) })
		return err
	}
	d.rules = rules
	return nil
}

// managedRules are the rules of the route with the owner's managed rules made again.
func (d *draft) managedRules() ([]*rule, error) {
	d.sortRoutes()
	sources := d.ownSources()
	var made []*madeRule
	for _, route := range d.own.Routes {
		rules, err := d.makeRules(route, sources)
		if err != nil {
			return nil, err
		}
		made = append(made, rules...)
	}
	d.nameRules(made)
	rules := d.placeRules(made)
	if len(made) == 0 {
		return rules, nil
	}
	if err := d.checkLimits(rules); err != nil {
		return nil, err
	}
	for _, r := range sources {
		if _, ok := d.records[r]; !ok {
			d.records[r] = ruleRecord{}
		}
	}
	return rules, nil
}

// ownSources are the sources that are not another owner's.
func (d *draft) ownSources() []*rule {
	return filter(d.sources(), func(r *rule) bool {
		return d.claims[r] == "" && len(d.refsTo(r, d.canary())) > 0
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
		return cmp.Or(cmp.Compare(place(a.Name), place(b.Name)), strings.Compare(a.Name, b.Name))
	})
}

// makeRules makes the rules of a header or mirror route: one from each source, or one
// for each match if the source's filters allow only one match in a rule.
func (d *draft) makeRules(route managedRoute, sources []*rule) ([]*madeRule, error) {
	var made []*madeRule
	var reasons []string
	for _, source := range sources {
		matches, skipped, elsewhere := d.matchesFor(route, source)
		for _, reason := range skipped {
			reason = d.describe(source) + " " + reason
			reasons = append(reasons, reason)
			d.announce(route, "%s route %q does not cover all requests: %s", route.what(), route.Name, reason)
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

// replacesPrefix tells whether a filter of a rule, or of one of its backendRefs,
// replaces the prefix that the rule matches. Then the CRD accepts only one match,
// with a prefix.
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

// makeRule copies a source into a managed rule with other matches, which sends requests
// to the canary alone or mirrors them to it.
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
