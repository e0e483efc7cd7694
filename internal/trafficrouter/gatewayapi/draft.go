package gatewayapi

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Decision is what a route should be.
type Decision struct {
	// Route is a copy of the route as it should be.
	Route *unstructured.Unstructured
	// Changed tells whether that differs from the route as it is.
	Changed bool
	// Managed are the Rollout's header and mirror routes on the route.
	Managed Managed
	// Warnings say what the Rollout's owner should know, a sentence each.
	Warnings []string
}

// draft is a route on the way to a decision.
type draft struct {
	ro        Rollout
	kind      Kind
	name      string // kind, namespace and name
	namespace string
	given     *unstructured.Unstructured
	route     *unstructured.Unstructured
	state     state
	// broken is true where the annotation could not be read.
	broken bool
	// leftBehind is true if the Rollout's traffic was not at rest although nothing is
	// remembered of it: then the Rollout's label is taken to be left behind, too.
	leftBehind bool
	// own is the Rollout's entry.
	own *entry
	// rules are all rules, in the order of the route.
	rules []*rule
	// experiments are the destinations that were added for any Rollout.
	experiments []service
	// records are the Rollout's records, by the user's rule that they describe.
	records map[*rule]ruleRecord
	// setting is the header or mirror route that a call sets; only that call warns of
	// what the route does not cover.
	setting  string
	warnings []string
}

// newDraft reads a route as one Rollout sees it.
func newDraft(route *unstructured.Unstructured, ro Rollout) (*draft, error) {
	if route == nil || route.Object == nil {
		return nil, errors.New("there is no route to decide on")
	}
	d := &draft{
		ro: ro, kind: Kind(route.GetKind()), namespace: route.GetNamespace(),
		name:  fmt.Sprintf("%s %s/%s", route.GetKind(), route.GetNamespace(), route.GetName()),
		given: route, route: route.DeepCopy(),
		records: map[*rule]ruleRecord{},
	}
	if !d.kind.known() {
		return nil, fmt.Errorf("%s: want one of %v", d.name, Kinds)
	}
	var warning string
	if d.state, warning = stateOf(route); warning != "" {
		d.broken, d.leftBehind = true, true
		d.warn("%s", warning)
	}
	d.own = d.state.entry(d.key())
	for _, key := range d.state.keys() {
		namespace, _, _ := strings.Cut(key, "/")
		for _, e := range d.state.entry(key).Experiments {
			d.experiments = append(d.experiments, service{namespace, e.Service})
		}
	}
	spec, _ := d.route.Object["spec"].(map[string]any)
	list, _ := spec["rules"].([]any)
	for _, raw := range list {
		body, _ := raw.(map[string]any)
		d.rules = append(d.rules, &rule{raw: raw, body: body})
	}
	d.findManaged()
	d.findRecords()
	return d, nil
}

func (d *draft) key() string     { return d.ro.String() }
func (d *draft) stable() service { return service{d.ro.Namespace, d.ro.Stable} }
func (d *draft) canary() service { return service{d.ro.Namespace, d.ro.Canary} }

func (d *draft) warn(format string, args ...any) {
	d.warnings = append(d.warnings, d.name+": "+fmt.Sprintf(format, args...))
}

func (d *draft) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", d.name, fmt.Errorf(format, args...))
}

// findManaged finds the rules that were made for the header and mirror routes of
// all Rollouts.
func (d *draft) findManaged() {
	type made struct {
		owner, route string
		before       bool
	}
	var all []made
	var wanted []known
	for _, key := range d.state.keys() {
		for _, route := range d.state.entry(key).Routes {
			for _, r := range route.Rules {
				all = append(all, made{key, route.Name, r.Before})
				wanted = append(wanted, known{r.Name, r.Hash})
			}
		}
	}
	for i, r := range d.find(wanted, d.rules) {
		if r != nil {
			r.owner, r.route, r.given, r.before = all[i].owner, all[i].route, wanted[i].name, all[i].before
		}
	}
}

// findRecords finds the user's rules that the Rollout's entry is about. If one record
// and one rule with both Services are left, they belong together, unless the rule is
// at rest: the rule has been edited beyond recognition.
func (d *draft) findRecords() {
	wanted := make([]known, len(d.own.Rules))
	for i, record := range d.own.Rules {
		wanted[i] = known{record.Name, record.Hash}
	}
	var lost []ruleRecord
	for i, r := range d.find(wanted, d.userRules()) {
		if r != nil {
			d.records[r] = d.own.Rules[i]
		} else {
			lost = append(lost, d.own.Rules[i])
		}
	}
	var left []*rule
	for _, r := range d.sources() {
		if _, ok := d.records[r]; !ok {
			left = append(left, r)
		}
	}
	if len(lost) == 1 && len(left) == 1 && !d.isAtRest(left[0]) {
		d.records[left[0]] = lost[0]
	}
}

// userRules are the rules that are not the router's.
func (d *draft) userRules() []*rule {
	return slices.DeleteFunc(slices.Clone(d.rules), func(r *rule) bool { return r.owner != "" || r.body == nil })
}

// sources are the user's rules that the Rollout splits.
func (d *draft) sources() []*rule {
	if d.ro.Unconfigured {
		return slices.DeleteFunc(d.userRules(), func(r *rule) bool { _, ok := d.records[r]; return !ok })
	}
	return slices.DeleteFunc(d.userRules(), func(r *rule) bool {
		return !d.holdsBoth(r) || len(d.ro.Rules) > 0 && !slices.Contains(d.ro.Rules, r.name())
	})
}

// toSplit returns the sources. It fails if there is none, or if one of them belongs to
// another Rollout.
func (d *draft) toSplit() ([]*rule, error) {
	if d.ro.Unconfigured {
		return nil, d.errorf("the configuration of Rollout %s cannot be read: only weight 0 can be set", d.key())
	}
	sources := d.sources()
	if len(sources) == 0 {
		return nil, d.noSource()
	}
	claims := d.claims()
	for _, r := range sources {
		if owner := claims[r]; owner != "" {
			return nil, &ForeignError{Route: d.name, Rule: d.describe(r), Rollout: d.key(), Owner: owner}
		}
		for _, s := range []service{d.stable(), d.canary()} {
			if n := len(d.refsTo(r, s)); n > 1 {
				return nil, d.errorf("%s has %d backendRefs to Service %s/%s: a weight needs one; take the others out", d.describe(r), n, s.namespace, s.name)
			}
		}
	}
	return sources, nil
}

func (d *draft) noSource() error {
	if len(d.ro.Rules) > 0 {
		return d.errorf("no rule named %s has both the stable Service %s and the canary Service %s of namespace %s in its backendRefs: correct the rule, or rules in the Rollout's configuration (CRDs older than Gateway API v1.4 drop the names of rules)",
			quoted(d.ro.Rules), d.ro.Stable, d.ro.Canary, d.ro.Namespace)
	}
	return d.errorf("no rule has both the stable Service %s and the canary Service %s of namespace %s in its backendRefs: add the one that is missing, the canary with weight 0",
		d.ro.Stable, d.ro.Canary, d.ro.Namespace)
}

// claims returns the Rollout that a rule belongs to, for each rule of another Rollout.
func (d *draft) claims() map[*rule]string {
	claims := map[*rule]string{}
	for _, key := range d.state.keys() {
		if key == d.key() {
			continue
		}
		var wanted []known
		for _, record := range d.state.entry(key).Rules {
			wanted = append(wanted, known{record.Name, record.Hash})
		}
		for _, r := range d.find(wanted, d.userRules()) {
			if r != nil && claims[r] == "" {
				claims[r] = key
			}
		}
	}
	return claims
}

// describe names a rule for a message.
func (d *draft) describe(r *rule) string {
	if name := r.name(); name != "" {
		return fmt.Sprintf("rule %q", name)
	}
	return fmt.Sprintf("rule %d", slices.Index(d.rules, r))
}

// finish returns the decision: rules, label and annotation together.
func (d *draft) finish() Decision {
	d.keepRecords()
	d.putRules()
	d.putLabel()
	d.own.Plugin = d.ro.Plugin
	if d.state.set(d.key(), d.own) || d.broken {
		d.state.write(d.route)
	}
	return Decision{
		Route:    d.route,
		Changed:  !reflect.DeepEqual(d.given.Object, d.route.Object),
		Managed:  d.managed(),
		Warnings: d.warnings,
	}
}

// keepRecords puts the rules that are the Rollout's into the entry, ordered by name and
// fingerprint: others may change the order of the route.
func (d *draft) keepRecords() {
	d.own.Rules = nil
	for _, r := range d.userRules() {
		if record, ok := d.records[r]; ok {
			now := d.recordOf(r)
			now.Rest = record.Rest
			d.own.Rules = append(d.own.Rules, now)
		}
	}
	slices.SortStableFunc(d.own.Rules, func(a, b ruleRecord) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Hash, b.Hash))
	})
}

// putRules writes the rules: the user's in their order, each after the managed
// rules that have to stand before it, then the managed ones of each Rollout.
func (d *draft) putRules() {
	var ordered, waiting, last []*rule
	for _, r := range d.rules {
		switch {
		case r.owner == "":
			ordered = append(append(ordered, waiting...), r)
			waiting = nil
		case r.before:
			waiting = append(waiting, r)
		default:
			last = append(last, r)
		}
	}
	slices.SortStableFunc(last, func(a, b *rule) int { return cmp.Compare(a.owner, b.owner) })
	d.rules = append(append(ordered, waiting...), last...)
	spec, ok := d.route.Object["spec"].(map[string]any)
	if !ok || len(d.rules) == 0 {
		return
	}
	list := make([]any, len(d.rules))
	for i, r := range d.rules {
		list[i] = r.raw
		if r.body != nil {
			list[i] = r.body
		}
	}
	spec["rules"] = list
}
