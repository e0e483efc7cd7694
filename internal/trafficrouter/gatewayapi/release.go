package gatewayapi

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Release decides what a route should be when a Rollout has nothing on it any more:
// the Rollout is gone, or does not name the route. It needs no configuration, and
// changes nothing but what the Rollout's entry in Annotation is about: weights are
// restored, experiments, header and mirror routes and the label are taken away. A
// route without such an entry stays as it is.
//
// stable is the Service that is stable now, for a Rollout with pingPong; all
// traffic of its rules goes there, for the other Service may have no pods. It is
// empty otherwise, and where it is not known: then it is the one of the last call, as
// the entry has it.
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
