package gatewayapi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/orphans"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/selfheal"
)

const (
	// callTimeout bounds one call of the controller, which has no bound of its
	// own: a call that hangs would hold one of its workers for good.
	callTimeout = 10 * time.Second
	// syncTimeout bounds the wait for the first list when a call wants to know
	// which routes carry something of a Rollout.
	syncTimeout = 2 * time.Second
	// attempts bounds the writes of one route when others keep changing it.
	attempts = 20
	// FieldManager is the field manager of the router's writes.
	FieldManager = "rollouts-plugin-gatewayapi"
)

// Options are the settings of a Router.
type Options struct {
	// PluginName is the name under which the plugin is registered, and finds its
	// configuration in a Rollout; DefaultPluginName when empty.
	PluginName string
	// WatchNamespace is the one namespace that is watched; all of them when it is
	// empty. Routes of other namespaces are read one by one.
	WatchNamespace string
	// SelfHeal lets the router write between two calls: put back what another writer
	// has changed, and take off what a Rollout that is gone has left.
	SelfHeal bool
}

// Router is the traffic router. Its methods are the calls of Argo Rollouts'
// RpcTrafficRoutingReconciler; they are safe for concurrent use and return within
// ten seconds. A call that fails leaves each route as it was or as decided.
type Router struct {
	routes   *kube.Group
	rollouts *kube.Metadata
	whole    *kube.Objects
	events   *rolloutsplugin.Events
	healer   *selfheal.Keeper[routeRef, decision]
	orphans  *orphans.Remover[routeRef]
	logger   hclog.Logger
	options  Options
	timeout  time.Duration

	background sync.Once
	ctx        context.Context
	cancel     context.CancelFunc

	unremoved unremoved
	searched  searches
	reports   reports
	mirroring mirrorSupport
	memory    memory
	// watchesAll is true once the routes of all kinds that the cluster serves are watched.
	watchesAll atomic.Bool
}

// routeRef names a route.
type routeRef struct {
	kind Kind
	k8stypes.NamespacedName
}

func (r routeRef) String() string { return string(r.kind) + " " + r.NamespacedName.String() }

// New returns a router that talks to the cluster of the configuration that
// connect returns. It makes no request, and needs no cluster in reach, until the
// first call.
func New(connect func() (*rest.Config, error), logger hclog.Logger, options Options) *Router {
	if options.PluginName == "" {
		options.PluginName = DefaultPluginName
	}
	r := &Router{
		rollouts: kube.NewMetadata(connect, kube.MetadataOptions{
			Resource:     v1alpha1.RolloutGVR,
			Namespace:    options.WatchNamespace,
			WithoutWatch: "what deleted Rollouts have left on routes is not found",
			Logger:       logger,
		}),
		whole:   kube.NewObjects(connect),
		events:  rolloutsplugin.NewEvents(connect, FieldManager, logger),
		logger:  logger,
		options: options,
		timeout: callTimeout,
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.healer = selfheal.NewShared(r.repair, logger)
	r.orphans = orphans.New(orphans.Options[routeRef]{Rollouts: r.rollouts, Marks: r.marks, TakeOff: r.takeOff, Logger: logger})
	kinds := make([]string, len(Kinds))
	for i, kind := range Kinds {
		kinds[i] = string(kind)
	}
	r.routes = kube.NewGroup(connect, kube.GroupOptions{
		Group:        Group,
		Kinds:        kinds,
		Namespace:    options.WatchNamespace,
		Index:        rolloutKeys,
		FieldManager: FieldManager,
		Changed: func(kind, namespace, name string) {
			r.healer.Changed(routeRef{Kind(kind), k8stypes.NamespacedName{Namespace: namespace, Name: name}})
		},
		WithoutWatch: "each call reads the routes it needs, changed routes are not put back, and routes that a Rollout no longer names are not found",
		Logger:       logger,
	})
	return r
}

// rolloutKeys are the Rollouts that a route is not at rest for.
func rolloutKeys(meta *metav1.ObjectMeta) []string {
	written, ok := meta.Annotations[Annotation]
	if !ok {
		return nil
	}
	route := &unstructured.Unstructured{Object: map[string]any{}}
	route.SetAnnotations(map[string]string{Annotation: written})
	var keys []string
	for _, rollout := range RolloutsOn(route) {
		keys = append(keys, rollout.String())
	}
	return keys
}

// Close ends the watches and all that runs between calls.
func (r *Router) Close() {
	r.cancel()
	r.routes.Close()
	r.rollouts.Close()
	r.events.Close()
}

// InitPlugin starts the work between calls. It never fails: the controller does not
// retry it, so a failure would be for good.
func (r *Router) InitPlugin() types.RpcError {
	if r.options.SelfHeal {
		r.background.Do(func() {
			go r.healer.Run(r.ctx)
			go r.orphans.Run(r.ctx)
		})
	}
	return types.RpcError{}
}

// Type returns the name under which the plugin is registered.
func (r *Router) Type() string { return r.options.PluginName }

// UpdateHash does nothing: routes name Services, whose selectors Argo Rollouts
// keeps.
func (r *Router) UpdateHash(*v1alpha1.Rollout, string, string, []v1alpha1.WeightDestination) types.RpcError {
	return types.RpcError{}
}

// SetWeight makes each route of the Rollout carry weight (0..maxTrafficWeight), and
// restores the routes that it no longer names. All routes are decided before the
// first is written; a route that is already as decided costs no request.
//
// At weight 0 it always takes the traffic back: a problem with the Rollout is a
// warning. Above 0, a Rollout with a problem that already has something on a route
// keeps that, with a warning, so that the controller goes on to its analysis and
// its abort.
func (r *Router) SetWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) types.RpcError {
	return r.locked(ro, "SetWeight", func(ctx context.Context) error {
		err := r.remembering(ro, r.questionOf(ro, "SetWeight", weight, additional), func(n *notes) error {
			return r.setWeight(ctx, r.planFor(ro, n, weight, additional))
		})
		return errors.Join(err, r.removeDue(ctx, ro))
	})
}

// VerifyWeight is Verified when SetWeight with the same arguments would write
// nothing and, above weight 0, every parent of the routes has accepted them. All
// else is NotVerified without an error, as the controller asks again only then.
func (r *Router) VerifyWeight(ro *v1alpha1.Rollout, weight int32, additional []v1alpha1.WeightDestination) (types.RpcVerified, types.RpcError) {
	failed := r.locked(ro, "VerifyWeight", func(ctx context.Context) error {
		return r.remembering(ro, r.questionOf(ro, "VerifyWeight", weight, additional), func(n *notes) error {
			return r.verify(ctx, r.planFor(ro, n, weight, additional))
		})
	})
	if failed.ErrorString != "" {
		r.logger.Debug("weight not verified", "rollout", nameOf(ro).String(), "weight", weight, "reason", failed.ErrorString)
		return types.NotVerified, types.RpcError{}
	}
	return types.Verified, types.RpcError{}
}

// SetHeaderRoute sends the requests that have the headers of a step to the canary,
// on each route of the Rollout that takes header routes. Without a match it
// removes that header route.
func (r *Router) SetHeaderRoute(ro *v1alpha1.Rollout, step *v1alpha1.SetHeaderRoute) types.RpcError {
	if step == nil {
		return types.RpcError{}
	}
	if len(step.Match) == 0 {
		return r.remove(ro, "SetHeaderRoute", func() { r.unremoved.note(nameOf(ro), step.Name) })
	}
	return r.setRoute(ro, "SetHeaderRoute", step.Name, step, func(ctx context.Context, p plan) error {
		return r.manage(ctx, p, "header route "+step.Name, Kind.TakesHeaderRoutes,
			func(t target) (Decision, error) { return SetHeaderRoute(t.route, t.rollout, step) })
	})
}

// SetMirrorRoute sends the requests that a step matches to the canary, too, on each
// HTTPRoute of the Rollout that takes header routes. Without a match it removes
// that mirror route.
func (r *Router) SetMirrorRoute(ro *v1alpha1.Rollout, step *v1alpha1.SetMirrorRoute) types.RpcError {
	if step == nil {
		return types.RpcError{}
	}
	if len(step.Match) == 0 {
		return r.remove(ro, "SetMirrorRoute", func() { r.unremoved.note(nameOf(ro), step.Name) })
	}
	return r.setRoute(ro, "SetMirrorRoute", step.Name, step, func(ctx context.Context, p plan) error {
		return r.manage(ctx, p, "mirror route "+step.Name, func(k Kind) bool { return k == HTTPRoute },
			func(t target) (Decision, error) { return SetMirrorRoute(t.route, t.rollout, step) })
	})
}

// RemoveManagedRoutes removes the header and mirror routes of the Rollout, and
// nothing else: Argo Rollouts calls it before it sets the present weight once more.
func (r *Router) RemoveManagedRoutes(ro *v1alpha1.Rollout) types.RpcError {
	return r.remove(ro, "RemoveManagedRoutes", func() { r.unremoved.noteAll(nameOf(ro)) })
}

// remove carries out a call that removes header and mirror routes; note records which. It
// returns no error: an error would keep the controller from setting the weight, which may
// be the way back to stable. What cannot be removed is left to the next SetWeight, which
// sets the weight first and fails after that.
func (r *Router) remove(ro *v1alpha1.Rollout, call string, note func()) types.RpcError {
	failed := r.locked(ro, call, func(ctx context.Context) error {
		note()
		return r.removeDue(ctx, ro)
	})
	if failed.HasError() {
		note() // the call may not have got the lock
		r.logger.Warn("header and mirror routes are not removed yet", "rollout", nameOf(ro).String(), "reason", failed.ErrorString)
	}
	return types.RpcError{}
}

// removeDue removes the header and mirror routes whose removal is due.
func (r *Router) removeDue(ctx context.Context, ro *v1alpha1.Rollout) error {
	due, ok := r.unremoved.of(nameOf(ro))
	if !ok {
		return nil
	}
	err := r.remembering(ro, r.questionOf(ro, "RemoveManagedRoutes", due.all, due.names, due.since), func(n *notes) error {
		return r.removeRoutes(ctx, r.planForRoutes(ro, n), func(t target) (Decision, error) { return remove(t.route, t.rollout, due.covers) })
	})
	if err == nil {
		r.unremoved.forget(nameOf(ro))
	}
	return err
}

// setRoute carries out a call that sets the header or mirror route of a step, which is then
// no longer due to be removed. (The controller makes the call for an aborted Rollout, too,
// and after RemoveManagedRoutes: then nothing is set.)
func (r *Router) setRoute(ro *v1alpha1.Rollout, call, name string, step any, do func(context.Context, plan) error) types.RpcError {
	return r.locked(ro, call, func(ctx context.Context) error {
		if !leavesSteps(ro) {
			r.unremoved.set(nameOf(ro), name)
		}
		return r.remembering(ro, r.questionOf(ro, call, step), func(n *notes) error { return do(ctx, r.planForRoutes(ro, n)) })
	})
}

// locked makes a call with a timeout, while no other call and no repair of the same
// Rollout runs. Its error names the Rollout and the call.
func (r *Router) locked(ro *v1alpha1.Rollout, call string, do func(context.Context) error) types.RpcError {
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	unlock, err := r.healer.Lock(ctx, nameOf(ro))
	if err == nil {
		defer unlock()
		err = do(ctx)
	}
	return rolloutsplugin.CallError(ro, call, err)
}

func nameOf(ro *v1alpha1.Rollout) k8stypes.NamespacedName {
	return k8stypes.NamespacedName{Namespace: ro.Namespace, Name: ro.Name}
}
