package gatewayapi

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Release decides what a route should be without an owner that is gone, or that does
// not name the route any more. It needs no configuration, and changes nothing but what
// the owner's entry in Annotation is about: weights are restored, experiments, header
// and mirror routes and the label are removed. A route without an entry of the owner
// stays as it is.
//
// stable is the Service that is stable now, for a Rollout with pingPong; all traffic of
// its rules goes there, because the other Service may have no pods. It is empty
// otherwise, and if it is not known: then the stable Service of the last call is taken
// from the entry.
func Release(route *unstructured.Unstructured, rollout types.NamespacedName, plugin, stable string) (Decision, error) {
	d, err := newDraft(route, Rollout{NamespacedName: rollout, Plugin: plugin, Stable: stable, Unconfigured: true})
	if err != nil {
		return Decision{}, err
	}
	if stable == "" {
		d.ro.Stable = d.own.Stable
	}
	d.ro.PingPong = d.ro.Stable != ""
	d.own.Routes = nil
	if err := d.renderManaged(); err != nil {
		return Decision{}, err
	}
	d.endOtherSplits(nil)
	d.endLostSplits()
	d.own.Experiments = nil
	return d.finish(), nil
}
