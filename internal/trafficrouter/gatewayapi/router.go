package gatewayapi

import (
	"cmp"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// FieldManager is the field manager of the router's writes.
const FieldManager = "rollouts-plugin-gatewayapi"

// role is the ClusterRole that grants what the router does; see deploy/gatewayapi.
const role = "argo-rollouts-gatewayapi"

// Reasons of the router's Events.
const (
	// reasonConfiguration says on a Rollout that the plugin ignores a key of its configuration.
	reasonConfiguration = "GatewayAPIConfiguration"
	// reasonRoute says on a Rollout that a header or mirror route does not cover all requests, or
	// a rule of yours wins against it. Or Argo Rollouts has removed such routes, because no pod of
	// the canary is available. Or a rule still has the canary's weight, or the annotation on a
	// route cannot be read.
	reasonRoute = "GatewayAPIRoute"
	// reasonRefused says on a Rollout that a parent does not accept a route. The Event has the
	// parent's reason, and says what that means for the weight.
	reasonRefused = "RouteRefused"
	// reasonUnreported says on a Rollout that a parent that has reported on a route before has not
	// reported for a minute. The Event says what to do. If the parent has never reported, for 30
	// s, the Event says that the weight counts as verified.
	reasonUnreported = "RouteNotReported"
	// reasonRestored says on a Rollout that something else has changed a route. The plugin has put
	// it back. The Event names the field manager.
	reasonRestored = "RouteRestored"
	// reasonReleased says on the route that the plugin has restored the route, because its Rollout
	// is gone or does not use the plugin any more.
	reasonReleased = "RouteReleased"
)

// Options are the routeSettings of a Router.
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
// RpcTrafficRoutingReconciler; see trafficrouter.Router.
type Router struct {
	*frame
	routes *store
}

// frame is the frame of the router.
type frame = trafficrouter.Router[*unstructured.Unstructured, routeSettings]

// New returns a router that talks to the cluster of the configuration that
// connect returns. It makes no request, and needs no cluster in reach, until the
// first call.
func New(connect func() (*rest.Config, error), logger hclog.Logger, options Options) *Router {
	return newRouterOf(connect, logger, options, func(s *store) routes { return s })
}

// routes is the store of the frame.
type routes = trafficrouter.Store[*unstructured.Unstructured]

// newRouterOf is New with a store that reads and writes as a given one.
func newRouterOf(connect func() (*rest.Config, error), logger hclog.Logger, options Options, as func(*store) routes) *Router {
	options.PluginName = cmp.Or(options.PluginName, DefaultPluginName)
	kinds := make([]string, len(Kinds))
	for i, kind := range Kinds {
		kinds[i] = string(kind)
	}
	r := &Router{routes: &store{}}
	r.routes.Group = kube.NewGroup(connect, kube.GroupOptions{
		Group:        Group,
		Kinds:        kinds,
		Namespace:    options.WatchNamespace,
		Index:        rolloutKeys,
		FieldManager: FieldManager,
		Changed: func(kind, namespace, name string) {
			r.Changed(trafficrouter.Query{Kind: kind, Namespace: namespace, Name: name}.Ref())
		},
		WithoutWatch: "each call reads the routes it needs, changed routes are not put back, and routes that a Rollout no longer names are not found",
		Logger:       logger,
	})
	r.routes.reports.gone = func(ref trafficrouter.Ref) bool {
		state, ok := r.routes.State(ref.Kind, ref.Namespace, ref.Name)
		return ok && state == kube.State{}
	}
	b := &backend{plugin: options.PluginName, routes: r.routes, whole: kube.NewObjects(connect)}
	r.frame = trafficrouter.New(b, as(r.routes), trafficrouter.Options{
		PluginName: options.PluginName, FieldManager: FieldManager, Kinds: kinds, LogField: "route",
		WatchNamespace: options.WatchNamespace, OtherNamespaces: true, SelfHeal: options.SelfHeal,
		Connect: connect, Logger: logger,
		Request:    rolloutsplugin.Request{Kept: "the route", Role: role, Manifests: "deploy/gatewayapi"},
		Resource:   func(kind string) string { return Kind(kind).Resource() + "." + Group },
		Reasons:    trafficrouter.Reasons{Configuration: reasonConfiguration, Decision: reasonRoute, Restored: reasonRestored, Released: reasonReleased},
		LeaveAlone: "have the other writer leave spec.rules alone while the route has the in-progress label",
		Released:   "has its weights and rules from before the canary of",
	})
	return r
}
