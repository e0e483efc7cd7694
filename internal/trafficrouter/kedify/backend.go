package kedify

import (
	"context"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// backend is what the frame of a router asks of HTTPScaledObjects.
type backend struct{ whole *kube.Objects }

// settings are what a configuration says of one HTTPScaledObject: nothing but its name.
type settings struct{}

type (
	target   = trafficrouter.Target[*metav1.PartialObjectMetadata, settings]
	decision = trafficrouter.Decision[*metav1.PartialObjectMetadata, settings]
)

var _ trafficrouter.Backend[*metav1.PartialObjectMetadata, settings] = backend{}

// Configure returns which HTTPScaledObjects a Rollout names.
func (backend) Configure(ro *v1alpha1.Rollout) (trafficrouter.Config[settings], error) {
	config, err := rolloutConfig(ro)
	c := trafficrouter.Config[settings]{Unsupported: unsupportedStep(ro)}
	for _, name := range config.Names() {
		c.Objects = append(c.Objects, trafficrouter.Selected[settings]{Query: queryFor(ro.Namespace, name)})
	}
	return c, err
}

// Decide returns an HTTPScaledObject with the split of a plan. The weights are all that it
// has of a plan.
func (backend) Decide(_ context.Context, p *trafficrouter.Plan, t target) (decision, error) {
	if p.Weights == nil {
		return decision{Object: t.Object}, nil
	}
	if owner := presentIn(t.Object.Annotations).ownerOtherThan(p.Rollout.Name); owner != "" {
		rollout := types.NamespacedName{Namespace: t.Namespace, Name: owner}
		return decision{}, &trafficrouter.ForeignError{Owner: trafficrouter.Owner{Rollout: rollout}, Err: fmt.Errorf(
			"%s carries the split of Rollout %s: one HTTPScaledObject takes the split of one Rollout; let %s finish, or give each Rollout an HTTPScaledObject of its own", t.Ref, rollout, owner)}
	}
	return decide(t.Object, wanted(p.Rollout.Name, splitOf(p.Rollout, *p.Weights))), nil
}

// Release returns an HTTPScaledObject without the split of a Rollout. Requests then go to
// the Service in scaleTargetRef; Release reads it if the split may have another stable one.
func (b backend) Release(ctx context.Context, object *metav1.PartialObjectMetadata, owner trafficrouter.Owner, ro *v1alpha1.Rollout) (decision, error) {
	now := presentIn(object.Annotations)
	if now.owner == nil || *now.owner != owner.Rollout.Name || object.Namespace != owner.Rollout.Namespace {
		return decision{Object: object}, nil
	}
	if now.split == nil || ro != nil && !rolloutspec.UsesPingPong(ro) {
		return decide(object, present{}), nil
	}
	whole := &httpv1alpha1.HTTPScaledObject{}
	err := b.whole.Get(ctx, httpv1alpha1.HTTPScaledObjects, object.Namespace, object.Name, whole)
	if err != nil && !apierrors.IsNotFound(err) {
		return decision{}, err
	}
	return decide(object, released(*now.split, whole.Spec.ScaleTargetRef.Service)), nil
}

// Owners returns the Rollout whose split an HTTPScaledObject carries. An owner without a
// split owns nothing.
func (backend) Owners(object *metav1.PartialObjectMetadata) []trafficrouter.Owner {
	now := presentIn(object.Annotations)
	if now.split == nil || now.owner == nil {
		return nil
	}
	return []trafficrouter.Owner{{Rollout: types.NamespacedName{Namespace: object.Namespace, Name: *now.owner}}}
}

// InPlace returns the weight of a Rollout's canary in the split that an HTTPScaledObject
// carries.
func (backend) InPlace(object *metav1.PartialObjectMetadata, ro *v1alpha1.Rollout) (canary int32, ok bool) {
	now := presentIn(object.Annotations)
	if now.split == nil || now.ownerOtherThan(ro.Name) != "" {
		return 0, false
	}
	return canaryIn(*now.split, ro), true
}

// Takes refuses header and mirror routes.
func (backend) Takes(_ []target, call trafficrouter.RouteCall) ([]target, error) {
	return nil, unsupported(call)
}

// Verify returns nil: the interceptor does not say which split it serves.
func (backend) Verify(context.Context, *trafficrouter.Plan, []target) error { return nil }

// ChangedBy returns how a split was changed, and by which field manager. A removal leaves
// no trace of its manager: for one the text lists all managers with their times.
func (backend) ChangedBy(object, wanted *metav1.PartialObjectMetadata) trafficrouter.Change {
	now, want := presentIn(object.Annotations), present{}
	if wanted != nil {
		want = presentIn(wanted.Annotations)
	}
	by := writersOf(object.ManagedFields, now.keysOtherThan(want))
	change := trafficrouter.Change{Manager: by.String(), Instance: by.contain(fieldManager)}
	if len(by) > 0 {
		change.Text = fmt.Sprintf("field manager %s changed the split to %s", by, now)
		return change
	}
	what := "the annotation " + weightedbackends.Annotation + " was removed, or the object was made anew"
	if now.split != nil {
		what = "the annotation " + weightedbackends.OwnerAnnotation + " was removed"
	}
	managers := make([]string, len(object.ManagedFields))
	for i, entry := range object.ManagedFields {
		managers[i] = describeManager(entry)
	}
	change.Text = fmt.Sprintf("%s; the object's field managers: %s", what, strings.Join(managers, ", "))
	return change
}

// Missing says that an HTTPScaledObject does not exist.
func (backend) Missing(q trafficrouter.Query, err error) error {
	// For a path that the API server does not serve, the answer is not a Status object.
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return fmt.Errorf("%s: the cluster does not know this kind: install Kedify's HTTP stack, or the interceptor of this plugin's release, with the CRD httpscaledobjects.http.keda.sh: %w", q, err)
	}
	return fmt.Errorf("%s not found: create it (KEDA makes it from a ScaledObject with a kedify-http trigger), or correct its name in plugins[%q] of the Rollout", q, PluginName)
}

// Owns tells whether a split that names a Rollout as its owner is still that Rollout's.
func Owns(ro *v1alpha1.Rollout, object string) bool {
	return trafficrouter.Owns(backend{}.Configure, PluginName, ro, queryFor(ro.Namespace, object).Ref(), nil)
}

// unsupported returns the error for a header or mirror route.
func unsupported(call trafficrouter.RouteCall) error {
	kind, step := "header", "setHeaderRoute"
	if call.Mirror != nil {
		kind, step = "mirror", "setMirrorRoute"
	}
	return fmt.Errorf("%s routes (route %q) are not supported by %s: take the %s step out", kind, call.Name(), PluginName, step)
}

// unsupportedStep returns an error that names the first step of a Rollout that the
// router cannot carry out. It can carry out steps that remove a route.
func unsupportedStep(ro *v1alpha1.Rollout) error {
	if ro.Spec.Strategy.Canary == nil {
		return nil
	}
	for i, step := range ro.Spec.Strategy.Canary.Steps {
		call := trafficrouter.RouteCall{Header: step.SetHeaderRoute, Mirror: step.SetMirrorRoute}
		if (call.Header != nil || call.Mirror != nil) && !call.Removes() {
			return fmt.Errorf("spec.strategy.canary.steps[%d]: %w", i, unsupported(call))
		}
	}
	return nil
}
