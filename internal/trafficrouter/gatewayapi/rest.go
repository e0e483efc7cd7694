package gatewayapi

import (
	"maps"
	"slices"
)

// isAtRest tells by its weights alone whether a rule is at rest: the canary has no
// requests, and another backend has.
func (d *draft) isAtRest(r *rule) bool {
	return total(d.refsTo(r, d.canary())) == 0 && total(r.refs()) > 0
}

func total(refs []map[string]any) int64 {
	sum := int64(0)
	for _, ref := range refs {
		sum += weightOf(ref)
	}
	return sum
}

// weightsNow are a rule's weights at rest if no record has them. With pingPong, git may
// give all of the traffic to either Service.
func (d *draft) weightsNow(r *rule) map[string]*int64 {
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

// rest brings the owner's rules to rest. Of a rule without a record, only a canary that
// has requests is taken to be split: a user may have any weights for stable.
func (d *draft) rest() {
	sources := d.sources()
	if len(sources) == 0 && !d.ro.Unconfigured {
		d.warnings = append(d.warnings, d.noSource().Error())
	}
	d.endOtherSplits(sources)
	for _, r := range sources {
		d.dropExperiments(r, nil)
		record, ok := d.records[r]
		switch {
		case ok && record.Rest != nil:
			record.Rest = d.restore(r, record.Rest)
			d.records[r] = record
		case d.claims[r] == "" && d.holdsBoth(r) && total(d.refsTo(r, d.canary())) > 0:
			d.records[r] = ruleRecord{Rest: d.restore(r, d.weightsNow(r))}
			d.unrecorded = true
		}
	}
	d.endLostSplits()
	d.own.Experiments = nil
}

// endOtherSplits restores the owner's rules that are not among sources, and those of
// sources that were split between other Services than now. Experiments go from each rule
// but the sources: a rule whose record is lost may have them.
func (d *draft) endOtherSplits(sources []*rule) {
	for _, r := range d.userRules() {
		record, ok := d.records[r]
		isSource := slices.Contains(sources, r)
		if !isSource && d.claims[r] == "" {
			d.dropExperiments(r, nil)
		}
		switch {
		case !ok:
		case !isSource:
			d.restore(r, record.Rest)
			delete(d.records, r)
		case record.Rest != nil && !d.ro.Unconfigured && !d.isAboutServices(record):
			d.setWeights(r, record.Rest)
			record.Rest = nil
			d.records[r] = record
		}
	}
}

// isAboutServices tells whether a record has the weights of the two Services of now.
func (d *draft) isAboutServices(record ruleRecord) bool {
	_, stable := record.Rest[d.ro.Stable]
	_, canary := record.Rest[d.ro.Canary]
	return stable && canary && len(record.Rest) == 2
}

// endLostSplits takes the traffic off the canary where no rule fits a record any more: the
// rule was edited, or removed. It may be any rule that gives the canary weight beside
// other backends. A record stays as long as one of them gives the canary all.
func (d *draft) endLostSplits() {
	d.lost = filter(d.lost, func(record ruleRecord) bool {
		stays := false
		weights, _ := d.weightsAtRest(record.Rest)
		for name, weight := range weights {
			if name == d.ro.Stable || weight == nil || *weight > 0 {
				continue
			}
			for _, r := range d.userRules() {
				stays = !d.takeOff(r, service{d.ro.Namespace, name}) || stays
			}
		}
		return stays
	})
}

// takeOff gives a Service the weight 0 in a rule that no record is about. It returns false
// if no other backend of the rule has weight.
func (d *draft) takeOff(r *rule, s service) bool {
	refs := d.refsTo(r, s)
	_, recorded := d.records[r]
	switch {
	case total(refs) == 0 || len(refs) == len(r.refs()) || recorded || d.claims[r] != "":
		return true
	case total(refs) == total(r.refs()):
		d.warn("%s gives all of its requests to the canary Service %s/%s, and what it was before the canary is not known: give another backend of the rule a weight", d.describe(r), s.namespace, s.name)
		return false
	}
	none := int64(0)
	for _, ref := range refs {
		setWeight(ref, &none)
	}
	return true
}

// restore brings a rule to rest, given the weights that it had before. It returns them if
// they differ from what the rule has now, so that it has to come back to them later. If
// they would leave requests with the canary, or with no backend at all, somebody has edited
// the record, and stable gets all.
func (d *draft) restore(r *rule, had map[string]*int64) (differing map[string]*int64) {
	weights, differ := d.weightsAtRest(had)
	if differ && len(d.refsTo(r, d.stable())) > 0 {
		differing = had
	} else {
		weights = had
	}
	d.setWeights(r, weights)
	if had != nil && d.holdsBoth(r) && !d.isAtRest(r) {
		d.setWeights(r, d.allForStable())
	}
	return differing
}

// weightsAtRest are the weights of a rule at rest that had these before. They differ only
// with pingPong: if the Service that is stable now had a part of them, it gets all.
func (d *draft) weightsAtRest(had map[string]*int64) (weights map[string]*int64, differ bool) {
	all, none := int64(0), int64(0)
	weights = map[string]*int64{d.ro.Stable: &all}
	for name, weight := range had {
		n := int64(1)
		if weight != nil {
			n = *weight
		}
		all += n
		if name != d.ro.Stable {
			weights[name] = &none
			differ = differ || n > 0
		}
	}
	if !d.ro.PingPong || !differ {
		return had, false
	}
	return weights, true
}

// setWeights sets the weights of the backendRefs of a rule, by the names of the Services.
func (d *draft) setWeights(r *rule, weights map[string]*int64) {
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		for _, ref := range d.refsTo(r, service{d.ro.Namespace, name}) {
			setWeight(ref, weights[name])
		}
	}
}
