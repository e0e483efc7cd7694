package gatewayapi

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// SetWeight decides what a route should be for a call of that name, and so for
// VerifyWeight: the route holds exactly what SetWeight asks for if nothing would
// change. Rules that are the Rollout's and are not to be split any more get back
// what they had. The rules of header and mirror routes are put right, too: mirrors
// follow the split, and a rule that somebody has removed is made again.
//
// Above rest it fails, with a ForeignError for another Rollout's rule, and then
// nothing is to be written. At rest it never fails but for something that is no
// route of a known kind.
func SetWeight(route *unstructured.Unstructured, ro Rollout, w Weights) (Decision, error) {
	d, err := newDraft(route, ro)
	if err != nil {
		return Decision{}, err
	}
	if err := d.setWeight(w); err != nil {
		return Decision{}, err
	}
	return d.finish(), nil
}

func (d *draft) setWeight(w Weights) error {
	if w.AtRest() {
		d.rest()
		if err := d.renderManaged(); err != nil {
			d.warn("header and mirror routes stay as they are: %v", err)
		}
		return nil
	}
	sources, err := d.toSplit()
	if err != nil {
		return err
	}
	if w.Stable < 0 || w.Canary < 0 || w.Stable > maxWeight || w.Canary > maxWeight {
		return d.errorf("the weights %d and %d of stable and canary are outside 0..%d, which is what a route takes: correct setWeight or spec.strategy.canary.trafficRouting.maxTrafficWeight", w.Stable, w.Canary, maxWeight)
	}
	d.leaveAllBut(sources)
	for _, r := range sources {
		d.leaveOtherServices(r)
		d.remember(r)
	}
	if err := d.setExperiments(sources, w.Experiments); err != nil {
		return err
	}
	for _, r := range sources {
		stable, canary := int64(w.Stable), int64(w.Canary)
		setWeight(d.refsTo(r, d.stable())[0], &stable)
		setWeight(d.refsTo(r, d.canary())[0], &canary)
	}
	return d.renderManaged()
}

// maxWeight is the greatest weight that the CRD takes.
const maxWeight = 1_000_000

// isAtRest tells whether a rule of which nothing is remembered is at rest.
func (d *draft) isAtRest(r *rule) bool {
	return total(d.refsTo(r, d.canary())) == 0 && total(d.refsTo(r, d.stable())) > 0
}

func total(refs []map[string]any) int64 {
	sum := int64(0)
	for _, ref := range refs {
		sum += weightOf(ref)
	}
	return sum
}

// remember notes the weights of a rule at rest, unless they are noted. With
// pingPong git may have either Service with all of the traffic.
func (d *draft) remember(r *rule) {
	record := d.records[r]
	if record.Rest == nil {
		record.Rest = d.restOf(r)
	}
	d.records[r] = record
}

// restOf returns the weights that a rule of which nothing is remembered has at
// rest.
func (d *draft) restOf(r *rule) map[string]*int64 {
	stable, canary := d.refsTo(r, d.stable()), d.refsTo(r, d.canary())
	swapped := d.ro.PingPong && total(stable) == 0 && total(canary) > 0
	if d.isAtRest(r) || swapped {
		return map[string]*int64{d.ro.Stable: writtenWeight(stable[0]), d.ro.Canary: writtenWeight(canary[0])}
	}
	return d.allForStable()
}

// allForStable are the weights at rest where there is no better knowledge.
func (d *draft) allForStable() map[string]*int64 {
	most, none := d.ro.max(), int64(0)
	return map[string]*int64{d.ro.Stable: &most, d.ro.Canary: &none}
}

// writtenWeight is the weight of a backendRef as it is written; nil without one.
func writtenWeight(ref map[string]any) *int64 {
	if _, ok := ref["weight"]; !ok {
		return nil
	}
	weight := weightOf(ref)
	return &weight
}

// leaveAllBut gives back what rules had that are not among sources.
func (d *draft) leaveAllBut(sources []*rule) {
	for _, r := range d.userRules() {
		if record, ok := d.records[r]; ok && !slices.Contains(sources, r) {
			if d.ro.PingPong && record.Rest != nil && len(d.refsTo(r, d.stable())) > 0 {
				d.restOnStable(r, record.Rest)
			} else {
				d.restore(r, record.Rest)
			}
			d.dropExperiments(r, nil)
			delete(d.records, r)
		}
	}
}

// leaveOtherServices gives back what a rule had that was split between other Services
// than now.
func (d *draft) leaveOtherServices(r *rule) {
	record := d.records[r]
	_, stable := record.Rest[d.ro.Stable]
	_, canary := record.Rest[d.ro.Canary]
	if record.Rest == nil || d.ro.Unconfigured || stable && canary && len(record.Rest) == 2 {
		return
	}
	d.restore(r, record.Rest)
	record.Rest = nil
	d.records[r] = record
}

// restore gives the backendRefs of a rule the weights that they had.
func (d *draft) restore(r *rule, rest map[string]*int64) {
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		for _, ref := range d.refsTo(r, service{d.ro.Namespace, name}) {
			setWeight(ref, rest[name])
		}
	}
}

// rest brings the Rollout's rules to rest.
func (d *draft) rest() {
	sources := d.sources()
	if len(sources) == 0 && !d.ro.Unconfigured {
		d.warnings = append(d.warnings, d.noSource().Error())
	}
	claims := d.claims()
	d.leaveAllBut(sources)
	for _, r := range sources {
		d.leaveOtherServices(r)
		d.dropExperiments(r, nil)
		if record, ok := d.records[r]; ok && record.Rest != nil {
			record.Rest = d.restFrom(r, record.Rest)
			d.records[r] = record
			if d.holdsBoth(r) && !d.isAtRest(r) { // somebody has edited the annotation
				d.restore(r, d.allForStable())
			}
		} else if claims[r] == "" && !d.isAtRest(r) && d.holdsBoth(r) {
			d.records[r] = ruleRecord{Rest: d.restFrom(r, d.restOf(r))}
			d.leftBehind = true
		}
	}
	d.own.Experiments = nil
}

// restFrom brings a rule to rest, given the weights that it had, and returns what
// is still to be remembered. That is nothing, unless with pingPong the Service that
// is stable now is not the one that has the traffic in git.
func (d *draft) restFrom(r *rule, had map[string]*int64) map[string]*int64 {
	if !d.ro.PingPong || d.ro.Stable == "" || d.ro.Canary == "" {
		d.restore(r, had)
		return nil
	}
	return d.restOnStable(r, had)
}

// restOnStable gives the Service that is stable now all that the rule's Services
// had, and returns that if it is not what each of them had.
func (d *draft) restOnStable(r *rule, had map[string]*int64) map[string]*int64 {
	all, others := int64(0), int64(0)
	for name, weight := range had {
		n := int64(1)
		if weight != nil {
			n = *weight
		}
		all += n
		if name != d.ro.Stable {
			others += n
		}
	}
	if others == 0 && all > 0 {
		d.restore(r, had)
		return nil
	}
	if all == 0 {
		all = d.ro.max()
	}
	none := int64(0)
	for name := range had {
		for _, ref := range d.refsTo(r, service{d.ro.Namespace, name}) {
			setWeight(ref, &none)
		}
	}
	for i, ref := range d.refsTo(r, d.stable()) {
		if i == 0 {
			setWeight(ref, &all)
		}
	}
	return had
}

// setExperiments gives the rules the destinations of the experiments, in their
// order, and takes away those of experiments that are over.
func (d *draft) setExperiments(sources []*rule, wanted []ExperimentWeight) error {
	var kept []experiment
	for _, w := range wanted {
		e := experiment{Service: w.Service}
		if i := slices.IndexFunc(d.own.Experiments, func(e experiment) bool { return e.Service == w.Service }); i >= 0 {
			e.Ports = maps.Clone(d.own.Experiments[i].Ports)
		}
		kept = append(kept, e)
	}
	for _, r := range sources {
		present := d.dropExperiments(r, kept)
		for i := range kept {
			ref, err := d.experimentRef(r, &kept[i], wanted[i].Weight)
			if err != nil {
				return err
			}
			if was := present[kept[i].Service]; d.sameRef(was, ref) {
				ref = was
			}
			refs, _ := r.body["backendRefs"].([]any)
			r.body["backendRefs"] = append(slices.Clone(refs), any(ref))
		}
		if n := len(r.refs()); n > maxListed && len(kept) > 0 {
			return d.errorf("%s would have %d backendRefs with those of the experiment, a rule takes %d", d.describe(r), n, maxListed)
		}
	}
	d.own.Experiments = kept
	for _, e := range kept {
		d.experiments = append(d.experiments, service{d.ro.Namespace, e.Service})
	}
	return nil
}

// dropExperiments takes the destinations of this Rollout's experiments, and those
// of the Services that are to be added, out of a rule, and returns them.
func (d *draft) dropExperiments(r *rule, added []experiment) map[string]map[string]any {
	var services []service
	for _, e := range slices.Concat(d.own.Experiments, added) {
		services = append(services, service{d.ro.Namespace, e.Service})
	}
	dropped := map[string]map[string]any{}
	refs, _ := r.body["backendRefs"].([]any)
	var kept []any
	for _, raw := range refs {
		ref, ok := raw.(map[string]any)
		b := backendOf(ref, d.namespace)
		if ok && slices.ContainsFunc(services, b.isService) {
			dropped[b.Name] = ref
			continue
		}
		kept = append(kept, raw)
	}
	if len(dropped) > 0 {
		r.body["backendRefs"] = kept
	}
	return dropped
}

// experimentRef makes the backendRef of an experiment's Service for a rule. It has
// what the backendRefs of stable and canary have in common: filters that only one
// of them has are that one's.
func (d *draft) experimentRef(r *rule, e *experiment, weight int32) (map[string]any, error) {
	stable, canary := d.refsTo(r, d.stable())[0], d.refsTo(r, d.canary())[0]
	neighbour := backendOf(stable, d.namespace)
	if neighbour.Port == 0 {
		return nil, d.errorf("%s: the backendRef to Service %s/%s has no port, so none can be found for Service %s of the experiment: add it", d.describe(r), d.ro.Namespace, d.ro.Stable, e.Service)
	}
	key := strconv.FormatInt(neighbour.Port, 10)
	if _, ok := e.Ports[key]; !ok {
		if d.ro.Port == nil {
			return nil, d.errorf("the port of Service %s/%s of the experiment is not known", d.ro.Namespace, e.Service)
		}
		port, err := d.ro.Port(e.Service, d.ro.Stable, int32(neighbour.Port))
		if err != nil {
			return nil, d.errorf("experiment: %w", err)
		}
		if e.Ports == nil {
			e.Ports = map[string]int32{}
		}
		e.Ports[key] = port
	}
	ref := map[string]any{}
	for field, value := range stable {
		if other, ok := canary[field]; ok && reflect.DeepEqual(value, other) {
			ref[field] = copyOf(value)
		}
	}
	ref["name"], ref["port"], ref["weight"] = e.Service, int64(e.Ports[key]), int64(weight)
	if d.namespace != d.ro.Namespace {
		ref["namespace"] = d.ro.Namespace
	}
	return ref, nil
}

// sameRef tells whether two backendRefs say the same, with the CRD's defaults.
func (d *draft) sameRef(a, b map[string]any) bool {
	return a != nil && reflect.DeepEqual(d.withDefaults(a), d.withDefaults(b))
}

func (d *draft) withDefaults(ref map[string]any) map[string]any {
	full := maps.Clone(ref)
	b := backendOf(ref, d.namespace)
	full["group"], full["kind"], full["namespace"] = b.Group, b.Kind, b.Namespace
	full["port"], full["weight"] = b.Port, weightOf(ref)
	return full
}
