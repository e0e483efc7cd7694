package kedify

import (
	"context"
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// foreignError says that an HTTPScaledObject carries the split of another
// Rollout.
type foreignError struct {
	namespace, object, owner string
	// unread is why the other Rollout could not be read. Assume then that the
	// split is its own.
	unread error
}

func (e *foreignError) Error() string {
	text := fmt.Sprintf("HTTPScaledObject %s/%s carries the split of Rollout %s/%s", e.namespace, e.object, e.namespace, e.owner)
	if e.unread != nil {
		return fmt.Sprintf("%s, and whether that Rollout still uses it is not known: %v", text, e.unread)
	}
	return fmt.Sprintf("%s: one HTTPScaledObject takes the split of one Rollout; let %s finish, or give each Rollout an HTTPScaledObject of its own", text, e.owner)
}

func (e *foreignError) Unwrap() error { return e.unread }

// mayChange returns a foreignError when the split on an HTTPScaledObject belongs to a
// Rollout other than rollout. It asks the API server only if the split names another
// owner.
func (r *Router) mayChange(ctx context.Context, namespace, rollout, object string, now present) error {
	owner := now.ownerOtherThan(rollout)
	if owner == "" {
		return nil
	}
	owns, _, err := r.owns(ctx, namespace, owner, object)
	if err != nil || owns {
		return &foreignError{namespace, object, owner, err}
	}
	return nil
}

// owns asks the API server whether the split of a Rollout on an HTTPScaledObject
// is still that Rollout's, and whether a Rollout that uses the plugin has a canary under
// way.
func (r *Router) owns(ctx context.Context, namespace, rollout, object string) (owns, underWay bool, err error) {
	ro, err := rolloutsplugin.ReadRollout(ctx, r.whole, k8stypes.NamespacedName{Namespace: namespace, Name: rollout})
	if err != nil || ro == nil {
		return false, false, err
	}
	return Owns(ro, object), Uses(ro) && rolloutspec.UnderWay(ro), nil
}

// Owns tells whether a split that names a Rollout as its owner is still that Rollout's:
// the Rollout is not being deleted, uses the plugin, and names the HTTPScaledObject or
// has a configuration that cannot be read. (The controller does nothing any more for a
// Rollout that waits for a finalizer.)
func Owns(ro *v1alpha1.Rollout, object string) bool {
	if ro.DeletionTimestamp != nil || !Uses(ro) {
		return false
	}
	config, err := rolloutConfig(ro)
	return err != nil || slices.Contains(config.Names(), object)
}

// ownSplits returns the splits of a Rollout that HTTPScaledObjects carry now. They are
// not known when an object that the Rollout names cannot be read, or when there is no
// watch to find them in and the Rollout's configuration cannot be read.
func (r *Router) ownSplits(ctx context.Context, ro *v1alpha1.Rollout) (splits []string, known bool) {
	seen := map[string]bool{}
	objects, known, err := r.objects.WithAnnotation(ctx, ro.Namespace, ro.Name, syncTimeout)
	known = known && err == nil
	for _, object := range objects {
		seen[object.Name] = true
		if now := presentIn(object.Annotations); now.split != nil {
			splits = append(splits, *now.split)
		}
	}
	config, err := rolloutConfig(ro)
	known = known || err == nil
	for _, name := range config.Names() {
		if seen[name] {
			continue
		}
		object, err := r.objects.Get(ctx, ro.Namespace, name)
		if err != nil {
			known = known && apierrors.IsNotFound(err)
			continue
		}
		// A split without owner belongs to the Rollout that names the object.
		if now := presentIn(object.Annotations); now.split != nil && now.ownerOtherThan(ro.Name) == "" {
			splits = append(splits, *now.split)
		}
	}
	return splits, known
}

// hasSplit tells whether an HTTPScaledObject carries a split of a Rollout.
func (r *Router) hasSplit(ctx context.Context, ro *v1alpha1.Rollout) bool {
	splits, known := r.ownSplits(ctx, ro)
	return len(splits) > 0 || !known && rolloutspec.WeightSet(ro)
}

// canaryHasShare tells whether a split of a Rollout gives anything to a Service
// other than the stable one.
func (r *Router) canaryHasShare(ctx context.Context, ro *v1alpha1.Rollout) bool {
	splits, known := r.ownSplits(ctx, ro)
	stable, _ := rolloutspec.Services(ro)
	if slices.ContainsFunc(splits, func(text string) bool { return sharesWithOthers(text, stable) }) {
		return true
	}
	return !known && rolloutspec.WeightSet(ro)
}

// sharesWithOthers tells whether a split gives weight to another Service than stable. A
// split that cannot be parsed is assumed to: the interceptor goes on serving the
// previous one.
func sharesWithOthers(text, stable string) bool {
	split, err := weightedbackends.Parse(text)
	return err != nil || slices.ContainsFunc(split, func(b weightedbackends.Backend) bool { return b.Service != stable && b.Weight > 0 })
}
