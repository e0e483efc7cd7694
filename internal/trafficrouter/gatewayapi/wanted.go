package gatewayapi

import (
	"errors"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Wanted is all that a Rollout wants of a route: its last SetWeight, and the header
// and mirror routes set and not removed since.
type Wanted struct {
	Weights Weights
	Headers []v1alpha1.SetHeaderRoute
	Mirrors []v1alpha1.SetMirrorRoute
}

// Apply decides what a route should be for all that a Rollout wants of it, whatever
// another writer has done to it: the calls in any order have the same outcome. The
// route is as decided if that changes nothing.
func Apply(route *unstructured.Unstructured, ro Rollout, wanted Wanted) (Decision, error) {
	d, err := newDraft(route, ro)
	if err != nil {
		return Decision{}, err
	}
	d.own.Routes = nil
	var failures []error
	for i := range wanted.Headers {
		managed, err := headerRouteOf(&wanted.Headers[i])
		failures = append(failures, err)
		d.wish(managed)
	}
	for i := range wanted.Mirrors {
		managed, err := mirrorRouteOf(&wanted.Mirrors[i], ro.MirrorPercent)
		failures = append(failures, err)
		d.wish(managed)
	}
	if err := errors.Join(failures...); err != nil {
		return Decision{}, d.errorf("%w", err)
	}
	if err := d.setWeight(wanted.Weights); err != nil {
		return Decision{}, err
	}
	return d.finish(), nil
}
