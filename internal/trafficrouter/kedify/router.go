// Package kedify is the Argo Rollouts traffic router kedify/http. It writes each canary
// weight of a Rollout to the HTTPScaledObjects that the Rollout names, as the
// annotation http.kedify.io/weighted-backends with its owner, and changes nothing else
// in them.
package kedify

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const (
	// kind is the kind of the objects.
	kind = "HTTPScaledObject"
	// fieldManager signs what the router writes.
	fieldManager = "rollouts-plugin-kedify"
	// role is the ClusterRole that grants what the router does; see deploy/rbac.
	role = "argo-rollouts-kedify-http"
)

// Reasons of the router's Events.
const (
	// reasonRestored says on a Rollout that something else has changed the split. The plugin has
	// put it back. The Event names the field manager of a changed value. After a removal it lists
	// the object's field managers with their times.
	reasonRestored = "SplitRestored"
	// reasonRemoved says on an HTTPScaledObject that the plugin has removed the split, because its
	// Rollout is gone.
	reasonRemoved = "SplitRemoved"
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
// RpcTrafficRoutingReconciler; see trafficrouter.Router.
type Router struct {
	*trafficrouter.Router[*metav1.PartialObjectMetadata, settings]
	objects store
}

// New returns a router that talks to the cluster of the configuration that
// connect returns. It makes no request, and needs no cluster in reach, until
// InitPlugin or the first call.
func New(connect func() (*rest.Config, error), logger hclog.Logger, options Options) *Router {
	r := &Router{}
	r.objects = store{kube.NewMetadata(connect, kube.MetadataOptions{
		Resource:        httpv1alpha1.HTTPScaledObjects,
		Namespace:       options.WatchNamespace,
		Annotations:     []string{weightedbackends.Annotation, weightedbackends.OwnerAnnotation},
		IndexAnnotation: weightedbackends.OwnerAnnotation,
		FieldManager:    fieldManager,
		Changed:         func(namespace, name string) { r.Changed(queryFor(namespace, name).Ref()) },
		WithoutWatch:    "each call reads the object it needs, changed splits are not put back, and splits left behind are not found",
		Logger:          logger,
	})}
	r.Router = trafficrouter.New(backend{kube.NewObjects(connect)}, r.objects, trafficrouter.Options{
		PluginName: PluginName, FieldManager: fieldManager, Kinds: []string{kind}, LogField: "httpScaledObject",
		WatchNamespace: options.WatchNamespace, SelfHeal: options.SelfHeal,
		Connect: connect, Logger: logger,
		Request:    rolloutsplugin.Request{Kept: "the split", Role: role, Manifests: "deploy/rbac"},
		Resource:   func(string) string { return httpv1alpha1.HTTPScaledObjects.GroupResource().String() },
		Reasons:    trafficrouter.Reasons{Restored: reasonRestored, Released: reasonRemoved},
		LeaveAlone: "have the other writer leave these annotations alone",
		Released:   "has lost the split of",
	})
	return r
}

// RemoveManagedRoutes does nothing: there are no managed routes, and the split belongs
// to SetWeight. Argo Rollouts calls this before SetWeight with the current weight on a
// full promotion; removing the split here would send that traffic back to stable for a
// moment.
func (r *Router) RemoveManagedRoutes(*v1alpha1.Rollout) types.RpcError { return types.RpcError{} }
