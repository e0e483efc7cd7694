// Package ingress points paths of Ingresses at kedify-proxy, and back. It decides about all
// Ingresses of a namespace together: a path that one has may take requests from another.
package ingress

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/acknowledgement"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
)

const (
	// atOnce is how many namespaces are worked on at a time.
	atOnce = 8
	// leastWait is how long a namespace waits after a request that failed. It is doubled each
	// time, up to mostWait. An Ingress that is refused for ever holds up by no more what others
	// of its namespace wait for, such as to be put back.
	leastWait, mostWait = 100 * time.Millisecond, 10 * time.Second
)

// Add adds the part to a manager.
func Add(mgr manager.Manager, s *agent.Settings, reporter *events.Reporter) error {
	r := &reconciler{
		Client: mgr.GetClient(), reporter: reporter, leaveAlone: s.LeaveAlone, ownIngresses: s.OwnIngresses, now: time.Now,
		asker: &acknowledgement.Asker{
			Reader: mgr.GetClient(), Port: s.InterceptorPort,
			Service: client.ObjectKey{Namespace: s.Namespace, Name: s.InterceptorService},
		},
		namespaces: make(map[string]*memory),
	}
	ofNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	})
	ofProxies := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetLabels()[discoveryv1.LabelServiceName] == agent.ProxyService
	})
	return builder.ControllerManagedBy(mgr).Named("ingress").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: atOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](leastWait, mostWait),
		}).
		Watches(&networkingv1.Ingress{}, ofNamespace).
		Watches(&httpv1alpha1.HTTPScaledObject{}, ofNamespace).
		Watches(&corev1.Service{}, ofNamespace). // a port may be named in the one place and numbered in the other
		Watches(&discoveryv1.EndpointSlice{}, ofNamespace, builder.WithPredicates(ofProxies)).
		Complete(r)
}
