// Package kedify is the Argo Rollouts traffic router kedify/http. It writes each canary
// weight of a Rollout to the HTTPScaledObjects that the Rollout names, as the
// annotation http.kedify.io/weighted-backends with its owner, and changes nothing else
// in them.
package kedify

import (
	"context"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/orphans"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/selfheal"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const (
	// callTimeout bounds one call of the controller, which has no bound of its
	// own: a call that hangs would hold one of its workers for good.
	callTimeout = 10 * time.Second
	// syncTimeout bounds the wait for the first list when a call looks for splits left
	// behind.
	syncTimeout = 2 * time.Second
	// attempts bounds the writes of one object when others keep changing it.
	attempts = 5
	// fieldManager signs what the router writes.
	fieldManager = "rollouts-plugin-kedify"
)

// Options are the settings of a Router.
type Options struct {
	// WatchNamespace is the one namespace that is watched; all of them when it is
	// empty. Rollouts of other namespaces are served without a watch.
	WatchNamespace string
	// SelfHeal lets the router write between two calls: put back a split that something
	// else has changed, and remove one whose Rollout is gone.
	SelfHeal bool
}

// Router is the traffic router. Its methods are the calls of Argo Rollouts'
// RpcTrafficRoutingReconciler; they are safe for concurrent use, return within
// ten seconds, and leave the present split untouched when they fail.
type Router struct {
	objects  *kube.Metadata
	rollouts *kube.Metadata
	whole    *kube.Objects
	events   *rolloutsplugin.Events
	healer   *selfheal.Keeper[k8stypes.NamespacedName, decision]
	orphans  *orphans.Remover[k8stypes.NamespacedName]
	logger   hclog.Logger
	options  Options
	timeout  time.Duration

	background sync.Once
	ctx        context.Context
	cancel     context.CancelFunc

	// missed holds the namespace/name of the HTTPScaledObjects whose absence
	// has been logged, so that an idle Rollout does not log it forever.
	missed sync.Map
}

// New returns a router that talks to the cluster of the configuration that
// connect returns. It makes no request, and needs no cluster in reach, until
// InitPlugin or the first call.
func New(connect func() (*rest.Config, error), logger hclog.Logger, options Options) *Router {
	r := &Router{
		rollouts: kube.NewMetadata(connect, kube.MetadataOptions{
			Resource:     v1alpha1.RolloutGVR,
			Namespace:    options.WatchNamespace,
			WithoutWatch: "splits whose Rollout is deleted are not found",
			Logger:       logger,
		}),
		whole:   kube.NewObjects(connect),
		events:  rolloutsplugin.NewEvents(connect, fieldManager, logger),
		logger:  logger,
		options: options,
		timeout: callTimeout,
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.healer = selfheal.New(r.repair, logger)
	r.orphans = orphans.New(orphans.Options[k8stypes.NamespacedName]{Rollouts: r.rollouts, Marks: r.splits, TakeOff: r.takeOffOrphan, Logger: logger})
	r.objects = kube.NewMetadata(connect, kube.MetadataOptions{
		Resource:        httpv1alpha1.HTTPScaledObjects,
		Namespace:       options.WatchNamespace,
		Annotations:     []string{weightedbackends.Annotation, weightedbackends.OwnerAnnotation},
		IndexAnnotation: weightedbackends.OwnerAnnotation,
		FieldManager:    fieldManager,
		Changed: func(namespace, name string) {
			r.healer.Changed(k8stypes.NamespacedName{Namespace: namespace, Name: name})
		},
		WithoutWatch: "each call reads the object it needs, changed splits are not put back, and splits left behind are not found",
		Logger:       logger,
	})
	return r
}

// Close ends the watches and all that runs between calls.
func (r *Router) Close() {
	r.cancel()
	r.objects.Close()
	r.rollouts.Close()
	r.events.Close()
}

// InitPlugin starts the watches where there is a cluster configuration, and the
// work between calls. It never fails: the controller does not retry it, so a
// failure would be for good.
func (r *Router) InitPlugin() types.RpcError {
	if err := r.objects.Connect(); err != nil {
		r.logger.Warn("no cluster configuration yet, trying again at the next call", "error", err)
	}
	if r.options.SelfHeal {
		r.background.Do(func() {
			go r.healer.Run(r.ctx)
			go r.orphans.Run(r.ctx)
		})
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

// RemoveManagedRoutes does nothing: there are no managed routes, and the split belongs
// to SetWeight. Argo Rollouts calls this before SetWeight with the current weight on a
// full promotion; removing the split here would send that traffic back to stable for a
// moment.
func (r *Router) RemoveManagedRoutes(*v1alpha1.Rollout) types.RpcError { return types.RpcError{} }

// SetWeight makes each HTTPScaledObject that the Rollout names carry the split for
// weight (0..maxTrafficWeight), and removes the Rollout's split from objects that it no
// longer names. Objects that need no change cost no request.
//
// At weight 0 it always takes the traffic back: a problem with the Rollout's spec is a
// warning. Above 0, a Rollout with such a problem keeps the split that it has, with a
// warning, so that the controller goes on to its analysis and its abort; without a
// split it is an error.
func (r *Router) SetWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) types.RpcError {
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	unlock, err := r.healer.Lock(ctx, nameOf(ro))
	if err != nil {
		return rolloutsplugin.CallError(ro, "SetWeight", err)
	}
	defer unlock()
	return rolloutsplugin.CallError(ro, "SetWeight", r.setWeight(ctx, planFor(ro, weight, additional)))
}

// VerifyWeight returns Verified when SetWeight with the same arguments would write
// nothing. Otherwise it returns NotVerified without an error: the controller asks again
// only then.
func (r *Router) VerifyWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) (types.RpcVerified, types.RpcError) {
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	unlock, err := r.healer.Lock(ctx, nameOf(ro))
	if err == nil {
		defer unlock()
		err = r.verify(ctx, planFor(ro, weight, additional))
	}
	if err != nil {
		r.logger.Debug("weight not verified", "rollout", nameOf(ro).String(), "weight", weight, "reason", err)
		return types.NotVerified, types.RpcError{}
	}
	return types.Verified, types.RpcError{}
}

// SetHeaderRoute refuses a header route. Removing one (no match) succeeds, and so does
// any call for a Rollout that has to get past the step.
func (r *Router) SetHeaderRoute(ro *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute) types.RpcError {
	if route == nil || len(route.Match) == 0 {
		return types.RpcError{}
	}
	return r.refuseRoute(ro, "SetHeaderRoute", unsupportedHeaderRoute(route))
}

// SetMirrorRoute refuses a mirror route. Removing one (no match) succeeds, and so does
// any call for a Rollout that has to get past the step.
func (r *Router) SetMirrorRoute(ro *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute) types.RpcError {
	if route == nil || len(route.Match) == 0 {
		return types.RpcError{}
	}
	return r.refuseRoute(ro, "SetMirrorRoute", unsupportedMirrorRoute(route))
}

func nameOf(ro *v1alpha1.Rollout) k8stypes.NamespacedName {
	return k8stypes.NamespacedName{Namespace: ro.Namespace, Name: ro.Name}
}
