package gatewayapi

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

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
	// stateChanged is true if the annotation has to be written although the owner's entry
	// stays as it is.
	stateChanged bool
	// own is the owner's entry; isNew is true if the route has none.
	own   *entry
	isNew bool
	// unrecorded is true if traffic is found on the canary of which no record says what it
	// was before. Then a label is taken to be of that canary, too.
	unrecorded bool
	// rules are all rules, in the order of the route.
	rules []*rule
	// present are the owner's managed rules as they are on the route.
	present []*rule
	// experiments are the destinations that were added for any Rollout.
	experiments []service
	// records are the owner's records, by the user's rule that they describe; no rule fits
	// those in lost.
	records map[*rule]ruleRecord
	lost    []ruleRecord
	// claims are the user's rules that other owners split, with the owner's key.
	claims map[*rule]string
	// announced are the names of the header and mirror routes that the call sets; of these
	// alone it is said what they do not cover.
	announced []string
	warnings  []string
}

// newDraft reads a route as one owner sees it.
func newDraft(route *unstructured.Unstructured, ro Rollout) (*draft, error) {
	if route == nil || route.Object == nil {
		return nil, errors.New("there is no route to decide on")
	}
	d := &draft{
		ro: ro, kind: Kind(route.GetKind()), namespace: route.GetNamespace(),
		name:  fmt.Sprintf("%s %s/%s", route.GetKind(), route.GetNamespace(), route.GetName()),
		given: route, route: route.DeepCopy(),
	}
	if !d.kind.known() {
		return nil, fmt.Errorf("%s: want one of %v", d.name, Kinds)
	}
	var warning string
	if d.state, warning = stateOf(route); warning != "" {
		d.stateChanged, d.unrecorded = true, true
		d.warn("%s", warning)
	}
	d.readEntry()
	spec, _ := d.route.Object["spec"].(map[string]any)
	list, _ := spec["rules"].([]any)
	for _, raw := range list {
		body, _ := raw.(map[string]any)
		d.rules = append(d.rules, &rule{raw: raw, body: body})
	}
	d.findManaged()
	d.findRecords()
	d.findClaims()
	return d, nil
}

// readEntry reads the owner's entry. Entries of registrations that the Rollout does not
// have any more become part of it.
func (d *draft) readEntry() {
	own, ok := d.state.entry(d.key())
	d.own, d.isNew = own, !ok
	for _, key := range d.state.keys() {
		owner := ownerOf(key)
		gone := len(d.ro.Registrations) > 0 && !slices.Contains(d.ro.Registrations, owner.Plugin)
		if owner.Rollout == d.ro.NamespacedName && key != d.key() && gone {
			d.own.add(d.state.entries[key])
			d.state.remove(key)
			d.stateChanged, d.isNew = true, false
		}
	}
	d.state.entries[d.key()] = d.own
	for _, key := range d.state.keys() {
		for _, e := range d.state.entries[key].Experiments {
			d.experiments = append(d.experiments, service{ownerOf(key).Rollout.Namespace, e.Service})
		}
	}
}

func (d *draft) owner() Owner    { return d.ro.owner() }
func (d *draft) key() string     { return keyOf(d.owner()) }
func (d *draft) stable() service { return service{d.ro.Namespace, d.ro.Stable} }
func (d *draft) canary() service { return service{d.ro.Namespace, d.ro.Canary} }

// warn adds a warning, each text once.
func (d *draft) warn(format string, args ...any) {
	warning := d.name + ": " + fmt.Sprintf(format, args...)
	if !slices.Contains(d.warnings, warning) {
		d.warnings = append(d.warnings, warning)
	}
}

// warnWithout warns of a header or mirror route that cannot be set together with a weight.
func (d *draft) warnWithout(err error) {
	d.warnings = append(d.warnings, err.Error()+"; the weight is set without it")
}

func (d *draft) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", d.name, fmt.Errorf(format, args...))
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
	d.putRecords()
	d.putMade()
	d.putRules()
	d.putLabel()
	if d.isNew && !d.unrecorded {
		d.own.Refused = refusalsOf(d.given)
	}
	if d.state.set(d.key(), d.own) || d.stateChanged {
		d.state.write(d.route)
	}
	return Decision{
		Route:    d.route,
		Changed:  !reflect.DeepEqual(d.given.Object, d.route.Object),
		Managed:  d.managed(),
		Warnings: d.warnings,
	}
}

// putRecords puts the rules that are the owner's into the entry, ordered by name and
// fingerprint: others may change the order of the route.
func (d *draft) putRecords() {
	d.own.Rules = slices.Clone(d.lost)
	for _, r := range d.userRules() {
		if record, ok := d.records[r]; ok {
			d.own.Rules = append(d.own.Rules, ruleRecord{r.name(), d.fingerprint(r.body), record.Rest})
		}
	}
	slices.SortStableFunc(d.own.Rules, func(a, b ruleRecord) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Hash, b.Hash))
	})
}

// putMade puts into the entry what identifies the owner's managed rules at a later call.
func (d *draft) putMade() {
	for i := range d.own.Routes {
		d.own.Routes[i].Rules = nil
		for _, r := range d.rules {
			if r.owner == d.key() && r.route == d.own.Routes[i].Name {
				d.own.Routes[i].Rules = append(d.own.Routes[i].Rules, madeRecord{r.given, d.fingerprint(r.body), r.before})
			}
		}
	}
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
