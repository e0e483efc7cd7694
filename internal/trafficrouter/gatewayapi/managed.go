package gatewayapi

import (
	"fmt"
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

// note warns of a header or mirror route once, in the call that sets it.
func (d *draft) note(route managedRoute, format string, args ...any) {
	warning := d.name + ": " + fmt.Sprintf(format, args...)
	if route.Name == d.setting && !slices.Contains(d.warnings, warning) {
		d.warnings = append(d.warnings, warning)
	}
}

// renderManaged makes the rules of the Rollout's header and mirror routes again from
// the present rules. A managed rule that would come out the same stays as it is. If it
// fails, it has changed nothing.
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
