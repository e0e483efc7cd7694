package trafficrouter

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugin "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

const (
	callTimeout = 10 * time.Second
	// syncTimeout bounds the wait for the first lists when a call wants to know which objects
	// have something of a Rollout.
	syncTimeout = 2 * time.Second
	// attempts bounds the writes of one object when others keep changing it.
	attempts = 20
)

// ReasonError says on a Rollout that something is wrong with the Rollout or with what it names, a
// step is not supported, or the API server refuses a write. The Event says what stays as it is.
// Argo Rollouts uses this reason, too, for an error of `SetWeight`.
const ReasonError = "TrafficRoutingError"

// Options are the settings of a Router, and its words for people.
type Options struct {
	// PluginName is the name under which the plugin is registered, and finds its
	// configuration in a Rollout. FieldManager signs its writes.
	PluginName, FieldManager string
	// LogField is the field of the log that names an object.
	LogField string
	// Kinds are the kinds of objects that the router writes.
	Kinds []string
	// WatchNamespace is the one namespace that is watched; all of them when it is empty.
	WatchNamespace string
	// OtherNamespaces says that a Rollout may mean objects of other namespaces than its own.
	OtherNamespaces bool
	// SelfHeal lets the router write between two calls: put back what another writer has
	// changed, and take off what Rollouts that are gone have left.
	SelfHeal bool
	// Connect returns the client configuration. It makes no request.
	Connect func() (*rest.Config, error)
	Logger  hclog.Logger
	// Timeout bounds one call; 10 s if it is 0. The controller has no bound of its own: a call
	// that hangs would hold one of its workers for good.
	Timeout time.Duration

	// Reasons are those of the router's own Events.
	Reasons Reasons
	// Request has what the errors of all requests say: Kept, Role and Manifests. Resource
	// returns the resource of a kind, with its group.
	Request  rolloutsplugin.Request
	Resource func(kind string) string
	// LeaveAlone says what a writer should do whose change was put back: "have the other
	// writer leave spec.rules alone".
	LeaveAlone string
	// Released says of an object, whose name precedes it, that what a Rollout, whose name
	// follows it, has left is taken off: "has its weights back from before the canary of".
	Released string
}

// Reasons are the reasons of Events: for a warning of the configuration and of a decision,
// for an object that is put back, and, on the object, for one that is released.
type Reasons struct{ Configuration, Decision, Restored, Released string }

// Router answers the calls of Argo Rollouts' RpcTrafficRoutingReconciler with a Backend. Its
// methods are safe for concurrent use and return within ten seconds. A call that fails
// leaves each object as it was or as decided.
type Router[T Object, S any] struct {
	Options
	backend  Backend[T, S]
	store    Store[T]
	rollouts *kube.Metadata
	whole    *kube.Objects
	events   *rolloutsplugin.Events
	healer   *Keeper[decided[S]]
	orphans  *remover
	memories memories

	background sync.Once
	ctx        context.Context
	cancel     context.CancelFunc
}

// New returns a router. It makes no request, and needs no cluster in reach, until the first
// call or InitPlugin.
func New[T Object, S any](backend Backend[T, S], store Store[T], options Options) *Router[T, S] {
	options.Timeout = cmp.Or(options.Timeout, callTimeout)
	r := &Router[T, S]{
		Options: options, backend: backend, store: store,
		rollouts: kube.NewMetadata(options.Connect, kube.MetadataOptions{
			Resource:     v1alpha1.RolloutGVR,
			Namespace:    options.WatchNamespace,
			WithoutWatch: "what deleted Rollouts have left is not found",
			Logger:       options.Logger,
		}),
		whole:  kube.NewObjects(options.Connect),
		events: rolloutsplugin.NewEvents(options.Connect, options.FieldManager, options.Logger),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.healer = newKeeper(r.repair, options.Logger)
	r.orphans = newRemover(r.rollouts, store.Marks, r.takeOff, options.Logger)
	return r
}

// Close ends the watches and all that runs between calls.
func (r *Router[T, S]) Close() {
	r.cancel()
	r.store.Close()
	r.rollouts.Close()
	r.events.Close()
}

// Changed tells the router that the watch shows an object as new or changed. It never waits.
func (r *Router[T, S]) Changed(ref Ref) { r.healer.Changed(ref) }

// PutBack puts back what other writers change, until ctx ends. InitPlugin starts it.
func (r *Router[T, S]) PutBack(ctx context.Context) { r.healer.Run(ctx) }

// TakeOff takes off once what Rollouts that are gone have left on objects. InitPlugin has
// that done every 15 s.
func (r *Router[T, S]) TakeOff(ctx context.Context) { r.orphans.Look(ctx) }

// PutBackOnce puts one object back at once, if it has to be, for each Rollout that has
// something on it.
func (r *Router[T, S]) PutBackOnce(ctx context.Context, ref Ref) Outcome {
	return r.healer.attempt(ctx, ref)
}

// PutsBack returns what is put back for a Rollout when another writer changes it: the plan,
// and the settings of each object. ok is false if nothing is.
func (r *Router[T, S]) PutsBack(rollout types.NamespacedName) (p Plan, objects map[Ref]S, ok bool) {
	last, _, ok := r.healer.Kept(rollout)
	return last.plan, last.settings, ok
}

// Exists tells whether a Rollout exists; known is false while there is no watch that says
// so. Then nothing is taken off.
func (r *Router[T, S]) Exists(rollout types.NamespacedName) (exists, known bool) {
	if r.rollouts.Connect() != nil {
		return false, false
	}
	found, known := r.rollouts.Watched(rollout.Namespace, rollout.Name)
	return found != nil, known
}

// InitPlugin starts the work between calls. It never fails: the controller does not retry
// it, so a failure would be for good.
func (r *Router[T, S]) InitPlugin() plugin.RpcError {
	r.background.Do(func() {
		go r.forgetGone(r.ctx)
		if r.SelfHeal {
			go r.PutBack(r.ctx)
			go r.orphans.Run(r.ctx)
		}
	})
	return plugin.RpcError{}
}

// Type returns the name under which the plugin is registered.
func (r *Router[T, S]) Type() string { return r.PluginName }

// UpdateHash does nothing: objects name Services, whose selectors Argo Rollouts keeps.
func (r *Router[T, S]) UpdateHash(*v1alpha1.Rollout, string, string, []v1alpha1.WeightDestination) plugin.RpcError {
	return plugin.RpcError{}
}

// SetWeight gives the canary its weight (0..maxTrafficWeight) on each object that the
// Rollout means, and releases those that it no longer means. An object that is already as
// decided costs no request. The package's documentation says what a problem leads to.
func (r *Router[T, S]) SetWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) plugin.RpcError {
	return r.serve(&call[S]{name: setWeight, Plan: Plan{Rollout: ro, Weights: &Weights{}}, weight: weight, additional: additional}, r.shift)
}

// VerifyWeight is Verified when SetWeight with the same arguments would write nothing, and
// the data plane serves that. All else is NotVerified without an error, as the controller
// asks again only then.
func (r *Router[T, S]) VerifyWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) (plugin.RpcVerified, plugin.RpcError) {
	failed := r.serve(&call[S]{name: verifyWeight, Plan: Plan{Rollout: ro, Weights: &Weights{}}, weight: weight, additional: additional}, r.verify)
	if failed.HasError() {
		r.Logger.Debug("weight not verified", "rollout", ro.Namespace+"/"+ro.Name, "weight", weight, "reason", failed.Error())
		return plugin.NotVerified, plugin.RpcError{}
	}
	return plugin.Verified, plugin.RpcError{}
}

// SetHeaderRoute sends the requests that have the headers of a step to the canary, on each
// object of the Rollout that takes header routes. Without a match it removes that header
// route.
func (r *Router[T, S]) SetHeaderRoute(ro *v1alpha1.Rollout, step *v1alpha1.SetHeaderRoute) plugin.RpcError {
	if step == nil {
		return plugin.RpcError{}
	}
	return r.routeCall("SetHeaderRoute", ro, RouteCall{Header: step})
}

// SetMirrorRoute sends the requests that a step matches to the canary, too, on each object
// of the Rollout that takes mirror routes. Without a match it removes that mirror route.
func (r *Router[T, S]) SetMirrorRoute(ro *v1alpha1.Rollout, step *v1alpha1.SetMirrorRoute) plugin.RpcError {
	if step == nil {
		return plugin.RpcError{}
	}
	return r.routeCall("SetMirrorRoute", ro, RouteCall{Mirror: step})
}

// RemoveManagedRoutes removes the header and mirror routes of the Rollout, and nothing else:
// Argo Rollouts calls it before it sets the present weight once more.
func (r *Router[T, S]) RemoveManagedRoutes(ro *v1alpha1.Rollout) plugin.RpcError {
	return r.routeCall(removeManagedRoutes, ro, RouteCall{RemoveAll: true})
}
