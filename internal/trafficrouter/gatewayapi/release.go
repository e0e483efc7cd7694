package gatewayapi

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Release decides what a route should be without a Rollout that is gone, or that does
// not name the route any more. It needs no configuration, and changes nothing but what
// the Rollout's entry in Annotation is about: weights are restored, experiments, header
// and mirror routes and the label are removed. A route without an entry of the Rollout
// stays as it is.
//
// stable is the Service that is stable now, for a Rollout with pingPong; all traffic of
// its rules goes there, because the other Service may have no pods. It is empty
// otherwise, and if it is not known: then the stable Service of the last call is taken
// from the entry.
func Release(route *unstructured.Unstructured, rollout types.NamespacedName, stable string) (Decision, error) {
	ro := Rollout{NamespacedName: rollout, Stable: stable, PingPong: stable != "", Unconfigured: true}
	d, err := newDraft(route, ro)
	if err != nil {
		return Decision{}, err
	}
	if stable == "" {
		d.ro.Stable, d.ro.PingPong = d.own.Stable, d.own.Stable != ""
	}
	for _, m := range d.own.Routes {
		d.removeRoute(m.Name)
	}
	d.leaveAllBut(nil)
	d.own.Experiments = nil
	return d.finish(), nil
}
