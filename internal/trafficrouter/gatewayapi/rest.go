package gatewayapi

import (
	"maps"
	"slices"
)

// isAtRest tells whether a rule is at rest, by its weights alone.
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

// remember records the weights of a rule at rest, unless they are recorded. With
// pingPong, git may give all of the traffic to either Service.
func (d *draft) remember(r *rule) {
	record := d.records[r]
	if record.Rest == nil {
		record.Rest = d.restOf(r)
	}
	d.records[r] = record
}

// restOf returns the weights at rest of a rule of which nothing is remembered.
func (d *draft) restOf(r *rule) map[string]*int64 {
	stable, canary := d.refsTo(r, d.stable()), d.refsTo(r, d.canary())
	swapped := d.ro.PingPong && total(stable) == 0 && total(canary) > 0
	if d.isAtRest(r) || swapped {
		return map[string]*int64{d.ro.Stable: writtenWeight(stable[0]), d.ro.Canary: writtenWeight(canary[0])}
	}
	return d.allForStable()
}

// allForStable are the weights at rest if nothing else is known.
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

// leaveAllBut restores the Rollout's rules that are not among sources.
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

// leaveOtherServices restores a rule that was split between other Services than now.
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
			if d.holdsBoth(r) && !d.isAtRest(r) { // the annotation has been edited
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

// restOnStable gives the Service that is stable now the weights of all the rule's
// Services. It returns had, the weights before, unless the result is the same.
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
