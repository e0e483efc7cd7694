package gatewayapi

// maxWeight is the greatest weight that the CRD accepts.
const maxWeight = 1_000_000

// split gives stable, canary and experiments their weights in each source, and restores the
// owner's other rules. At rest it restores all, and cannot fail.
func (d *draft) split(w Weights) error {
	d.own.Stable = ""
	if d.ro.PingPong {
		d.own.Stable = d.ro.Stable
	}
	if w.AtRest() {
		d.rest()
		return nil
	}
	sources, err := d.toSplit()
	if err != nil {
		return err
	}
	if w.Stable < 0 || w.Canary < 0 || w.Stable > maxWeight || w.Canary > maxWeight {
		return d.errorf("the weights %d and %d of stable and canary are outside 0..%d, which is what a route takes: correct setWeight or spec.strategy.canary.trafficRouting.maxTrafficWeight", w.Stable, w.Canary, maxWeight)
	}
	d.endOtherSplits(sources)
	for _, r := range sources {
		d.recordRest(r)
	}
	if err := d.setExperiments(sources, w.Experiments); err != nil {
		return err
	}
	for _, r := range sources {
		stable, canary := int64(w.Stable), int64(w.Canary)
		setWeight(d.refsTo(r, d.stable())[0], &stable)
		setWeight(d.refsTo(r, d.canary())[0], &canary)
	}
	return nil
}

// recordRest records the weights of a rule at rest, unless they are recorded.
func (d *draft) recordRest(r *rule) {
	record := d.records[r]
	if record.Rest == nil {
		d.unrecorded = d.unrecorded || total(d.refsTo(r, d.canary())) > 0
		record.Rest = d.weightsNow(r)
	}
	d.records[r] = record
}
