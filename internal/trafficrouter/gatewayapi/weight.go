package gatewayapi

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// SetWeight decides what a route should be for a call of that name, and so for
// VerifyWeight: the route holds exactly what SetWeight asks for if nothing would
// change. Rules of the Rollout that are not to be split any more are restored. The
// rules of header and mirror routes are updated, too: mirrors follow the split, and a
// rule that another writer has removed is made again.
//
// Above rest it can fail, with a ForeignError for another Rollout's rule, and then
// nothing is to be written. At rest it fails only if the object is no route of a known
// kind.
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
	d.own.Stable = ""
	if d.ro.PingPong {
		d.own.Stable = d.ro.Stable
	}
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

// maxWeight is the greatest weight that the CRD accepts.
const maxWeight = 1_000_000
