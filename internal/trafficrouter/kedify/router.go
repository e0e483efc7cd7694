// Package kedify is the Argo Rollouts traffic router kedify/http. It carries
// each canary weight of a Rollout to the HTTPScaledObjects the Rollout names,
// as the annotation http.kedify.io/weighted-backends, and touches nothing else
// of them.
package kedify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const (
	// callTimeout bounds one call of the controller, which has no bound of its
	// own: a call that hangs would hold one of its workers for good.
	callTimeout = 10 * time.Second
	// syncTimeout bounds the wait for the first list when a call wants to know
	// of splits left behind.
	syncTimeout = 2 * time.Second
	// attempts bounds the writes of one object when others keep changing it.
	attempts = 5
)

// Router is the traffic router. Its methods are the calls of Argo Rollouts'
// RpcTrafficRoutingReconciler; they are safe for concurrent use, return within
// ten seconds, and leave the present split untouched when they fail.
type Router struct {
	objects *kube.Metadata
	logger  hclog.Logger
	timeout time.Duration

	// missed holds the namespace/name of the HTTPScaledObjects whose absence
	// has been logged, so that an idle Rollout does not log it forever.
	missed sync.Map
}

// New returns a router that talks to the cluster of the configuration that
// connect returns. It makes no request, and needs no cluster in reach, until
// the first call.
func New(connect func() (*rest.Config, error), logger hclog.Logger) *Router {
	return &Router{
		objects: kube.NewMetadata(connect, kube.MetadataOptions{
			Resource:        httpv1alpha1.HTTPScaledObjects,
			Annotations:     []string{weightedbackends.Annotation, weightedbackends.OwnerAnnotation},
			IndexAnnotation: weightedbackends.OwnerAnnotation,
			FieldManager:    "rollouts-plugin-kedify",
			Logger:          logger,
		}),
		logger:  logger,
		timeout: callTimeout,
	}
}

// InitPlugin starts the watch where there is a cluster configuration. It never
// fails: the controller does not retry it, so a failure would be for good.
func (r *Router) InitPlugin() types.RpcError {
	if err := r.objects.Connect(); err != nil {
		r.logger.Warn("no cluster configuration yet, trying again at the next call", "error", err)
	}
	return types.RpcError{}
}

// Type returns the plugin's name.
func (r *Router) Type() string { return PluginName }

// UpdateHash does nothing: the split names Services, whose selectors Argo
// Rollouts keeps.
func (r *Router) UpdateHash(*v1alpha1.Rollout, string, string, []v1alpha1.WeightDestination) types.RpcError {
	return types.RpcError{}
}

// RemoveManagedRoutes does nothing: there are no managed routes, and the split
// is SetWeight's alone. Argo Rollouts calls this before SetWeight with the
// current weight on a full promotion; taking the split off here would send
// that traffic back to stable for a moment.
func (r *Router) RemoveManagedRoutes(*v1alpha1.Rollout) types.RpcError { return types.RpcError{} }

// SetHeaderRoute refuses a header route; removing one (no match) succeeds, and
// so does any on a Rollout that is on its way out of its steps.
func (r *Router) SetHeaderRoute(ro *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute) types.RpcError {
	if route == nil || len(route.Match) == 0 || leavingSteps(ro) {
		return types.RpcError{}
	}
	return rpcError(ro, "SetHeaderRoute", fmt.Errorf("header routes (route %q) are not supported by %s: take the setHeaderRoute step out", route.Name, PluginName))
}

// SetMirrorRoute refuses a mirror route; removing one (no match) succeeds, and
// so does any on a Rollout that is on its way out of its steps.
func (r *Router) SetMirrorRoute(ro *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute) types.RpcError {
	if route == nil || len(route.Match) == 0 || leavingSteps(ro) {
		return types.RpcError{}
	}
	return rpcError(ro, "SetMirrorRoute", fmt.Errorf("mirror routes (route %q) are not supported by %s: take the setMirrorRoute step out", route.Name, PluginName))
}

// leavingSteps tells whether a Rollout is aborted or promoted in full. Argo
// Rollouts goes on asking for the route of the step it stands at then, before
// it sets the weight: an error would keep the split where it is, and the abort
// from ever being one.
func leavingSteps(ro *v1alpha1.Rollout) bool { return ro.Status.Abort || ro.Status.PromoteFull }

// SetWeight makes each HTTPScaledObject that the Rollout names carry the split
// for weight (0..maxTrafficWeight), and takes the Rollout's split off those it
// no longer names. Objects that already say so cost no request.
func (r *Router) SetWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) types.RpcError {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	return rpcError(ro, "SetWeight", r.setWeight(ctx, ro, weight, additional))
}

func (r *Router) setWeight(ctx context.Context, ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) error {
	config, split, err := plan(ro, weight, additional)
	if err != nil {
		return err
	}
	idle := isIdle(weight, additional)
	var failures []error
	for _, name := range config.Names() {
		if err := r.apply(ctx, ro, name, split, idle); err != nil {
			failures = append(failures, err)
		}
	}
	if err := r.leaveUnnamed(ctx, ro, config.Names()); err != nil {
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// VerifyWeight is Verified when SetWeight with the same arguments would write
// nothing. Whatever may pass by itself is NotVerified without an error: the
// controller asks again only then.
func (r *Router) VerifyWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) (types.RpcVerified, types.RpcError) {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	config, split, err := plan(ro, weight, additional)
	if err != nil {
		return types.NotVerified, rpcError(ro, "VerifyWeight", err)
	}
	idle := isIdle(weight, additional)
	for _, name := range config.Names() {
		object, err := r.objects.Get(ctx, ro.Namespace, name)
		if idle && (apierrors.IsNotFound(err) || err == nil && presentIn(object.Annotations).foreignTo(ro.Name) != "") {
			// Nothing of this Rollout's to take off; SetWeight has looked closer.
			continue
		}
		var change map[string]*string
		if err == nil {
			change, err = r.change(ctx, ro, object, split, idle)
		}
		if err != nil || change != nil {
			r.logger.Debug("weight not verified", "rollout", ro.Namespace+"/"+ro.Name, "httpScaledObject", name, "weight", weight, "error", err)
			return types.NotVerified, types.RpcError{}
		}
	}
	return types.Verified, types.RpcError{}
}

// plan is the pure part of a call: which objects should say what.
func plan(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) (Config, []weightedbackends.Backend, error) {
	config, err := rolloutConfig(ro)
	if err != nil {
		return Config{}, nil, err
	}
	split, err := DesiredSplit(ro, weight, additional)
	return config, split, err
}

// apply makes one HTTPScaledObject carry a split. When idle, with nothing for
// the canary, a missing object is only logged: there is nothing to take off,
// and a first deployment or an abort must not hang on it.
func (r *Router) apply(ctx context.Context, ro *v1alpha1.Rollout, name string, split []weightedbackends.Backend, idle bool) error {
	started := time.Now()
	read := r.objects.Get
	for attempt := 1; ; attempt++ {
		object, err := read(ctx, ro.Namespace, name)
		if apierrors.IsNotFound(err) && !r.knownMissing(ro, name, idle) {
			// A watch may be behind an object that has just been made.
			object, err = r.objects.Read(ctx, ro.Namespace, name)
		}
		if apierrors.IsNotFound(err) {
			return r.missing(ro, name, idle, err)
		}
		if err != nil {
			return requestError("get", ro.Namespace, name, r.timeout, err)
		}
		r.missed.Delete(ro.Namespace + "/" + name)
		change, err := r.change(ctx, ro, object, split, idle)
		if err != nil || change == nil {
			return err
		}
		_, err = r.objects.Annotate(ctx, object, change)
		switch {
		case err == nil:
			r.logChange(ro, name, presentIn(object.Annotations), split, time.Since(started))
			return nil
		case apierrors.IsNotFound(err):
			return r.missing(ro, name, idle, err)
		case apierrors.IsConflict(err) && attempt < attempts:
			// Changed since it was read: look again, past the watch.
			read = r.objects.Read
		default:
			return requestError("patch", ro.Namespace, name, r.timeout, err)
		}
	}
}

// change returns what to write to an object so that it carries a split, or
// nothing. A split of another Rollout that exists is left alone when idle, and
// is an error otherwise.
func (r *Router) change(ctx context.Context, ro *v1alpha1.Rollout, object *metav1.PartialObjectMetadata, split []weightedbackends.Backend, idle bool) (map[string]*string, error) {
	now := presentIn(object.Annotations)
	if owner := now.foreignTo(ro.Name); owner != "" {
		exists, err := r.objects.Exists(ctx, v1alpha1.RolloutGVR, ro.Namespace, owner)
		switch {
		// Who cannot be asked after is taken to be there.
		case (err != nil || exists) && idle:
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("HTTPScaledObject %s/%s carries the split of Rollout %s/%s, and whether that one still exists could not be read: %w", ro.Namespace, object.Name, ro.Namespace, owner, err)
		case exists:
			return nil, fmt.Errorf("HTTPScaledObject %s/%s carries the split of Rollout %s/%s: one HTTPScaledObject takes the split of one Rollout; let %s finish, or give Rollout %s/%s an HTTPScaledObject of its own",
				ro.Namespace, object.Name, ro.Namespace, owner, owner, ro.Namespace, ro.Name)
		}
	}
	return decide(now, ro.Name, split), nil
}

func (r *Router) logChange(ro *v1alpha1.Rollout, name string, from present, to []weightedbackends.Backend, took time.Duration) {
	fields := []any{
		"rollout", ro.Namespace + "/" + ro.Name, "httpScaledObject", ro.Namespace + "/" + name,
		"from", from.String(), "to", weightedbackends.Describe(to), "took", took.Round(time.Microsecond).String(),
	}
	if owner := from.foreignTo(ro.Name); owner != "" {
		fields = append(fields, "takenOverFrom", ro.Namespace+"/"+owner)
	}
	r.logger.Info("split changed", fields...)
}

// knownMissing tells whether an idle Rollout has been told already that its
// HTTPScaledObject is not there: once is enough to ask the API server.
func (r *Router) knownMissing(ro *v1alpha1.Rollout, name string, idle bool) bool {
	_, known := r.missed.Load(ro.Namespace + "/" + name)
	return known && idle
}

func (r *Router) missing(ro *v1alpha1.Rollout, name string, idle bool, err error) error {
	err = missingError(ro.Namespace, name, err)
	if !idle {
		return err
	}
	if _, logged := r.missed.LoadOrStore(ro.Namespace+"/"+name, true); !logged {
		r.logger.Warn("nothing to take the split off", "rollout", ro.Namespace+"/"+ro.Name, "reason", err)
	}
	return nil
}

// leaveUnnamed takes the Rollout's split off the HTTPScaledObjects that it
// does not name (any more). They are found in the watch; without one they
// stay as they are.
func (r *Router) leaveUnnamed(ctx context.Context, ro *v1alpha1.Rollout, named []string) error {
	objects, ok, err := r.objects.WithAnnotation(ctx, ro.Namespace, ro.Name, syncTimeout)
	if err != nil {
		return err
	}
	if !ok {
		r.logger.Debug("no watch (yet): splits on HTTPScaledObjects that the Rollout no longer names stay for now", "rollout", ro.Namespace+"/"+ro.Name)
	}
	var failures []error
	for _, object := range objects {
		if !slices.Contains(named, object.Name) {
			failures = append(failures, r.apply(ctx, ro, object.Name, nil, true))
		}
	}
	return errors.Join(failures...)
}
