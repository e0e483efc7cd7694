package kedify

import (
	"context"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// owns asks the API server whether the split of a Rollout on an HTTPScaledObject
// is still that Rollout's: it exists, uses the plugin and names the object. A
// Rollout whose configuration cannot be read owns its splits.
func (r *Router) owns(ctx context.Context, namespace, rollout, object string) (bool, error) {
	ro := &v1alpha1.Rollout{}
	err := r.whole.Get(ctx, v1alpha1.RolloutGVR, namespace, rollout, ro)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return Owns(ro, object), nil
}

// Owns tells whether a split that names a Rollout as its owner is that Rollout's:
// it uses the plugin and names the HTTPScaledObject, or has a configuration that
// cannot be read.
func Owns(ro *v1alpha1.Rollout, object string) bool {
	if !Uses(ro) {
		return false
	}
	config, err := rolloutConfig(ro)
	return err != nil || slices.Contains(config.Names(), object)
}

// ownSplits returns the splits of the plan's Rollout that HTTPScaledObjects
// carry now. They are not known when there is no watch to find them in and the
// Rollout's own names cannot be read.
func (r *Router) ownSplits(ctx context.Context, p plan) (splits []string, known bool) {
	seen := map[string]bool{}
	objects, known, err := r.objects.WithAnnotation(ctx, p.ro.Namespace, p.ro.Name, syncTimeout)
	known = known && err == nil
	for _, object := range objects {
		seen[object.Name] = true
		if now := presentIn(object.Annotations); now.split != nil {
			splits = append(splits, *now.split)
		}
	}
	known = known || p.configError == nil
	for _, name := range p.names {
		if seen[name] {
			continue
		}
		object, err := r.objects.Get(ctx, p.ro.Namespace, name)
		if err != nil {
			known = known && apierrors.IsNotFound(err)
			continue
		}
		// A split without owner belongs to the Rollout that names the object.
		if now := presentIn(object.Annotations); now.split != nil && now.foreignTo(p.ro.Name) == "" {
			splits = append(splits, *now.split)
		}
	}
	return splits, known
}

// hasSplit tells whether an HTTPScaledObject carries a split of the plan's
// Rollout. Where that is not known it believes the weights that the controller
// has set.
func (r *Router) hasSplit(ctx context.Context, p plan) bool {
	splits, known := r.ownSplits(ctx, p)
	return len(splits) > 0 || !known && weightSet(p.ro)
}

// canaryHasShare tells whether a split of the plan's Rollout gives anything to
// a Service other than the stable one. Where that is not known it believes the
// weights that the controller has set.
func (r *Router) canaryHasShare(ctx context.Context, p plan) bool {
	splits, known := r.ownSplits(ctx, p)
	stable, _ := Services(p.ro)
	if slices.ContainsFunc(splits, func(text string) bool { return sharesWithOthers(text, stable) }) {
		return true
	}
	return !known && weightSet(p.ro)
}

// sharesWithOthers tells whether a split gives weight to another Service than
// stable. Of one that cannot be read it is assumed: the interceptor serves what
// was there before.
func sharesWithOthers(text, stable string) bool {
	split, err := weightedbackends.Parse(text)
	return err != nil || slices.ContainsFunc(split, func(b weightedbackends.Backend) bool { return b.Service != stable && b.Weight > 0 })
}

// weightSet tells whether the controller has set a weight above 0.
func weightSet(ro *v1alpha1.Rollout) bool {
	weights := ro.Status.Canary.Weights
	return weights != nil && (weights.Canary.Weight > 0 ||
		slices.ContainsFunc(weights.Additional, func(d v1alpha1.WeightDestination) bool { return d.Weight > 0 }))
}
