// Package objects makes an HTTPScaledObject from each ScaledObject with a kedify-http
// trigger, and keeps the two in step.
package objects

import (
	"context"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/trigger"
)

const (
	// atOnce is how many ScaledObjects are worked on at a time, so that a webhook that
	// hangs for one namespace holds up few others.
	atOnce = 16
	// leastWait is how long a ScaledObject waits after a request that failed. It is doubled
	// each time, up to mostWait.
	leastWait, mostWait = 100 * time.Millisecond, 2 * time.Minute
)

// rolloutIndex finds the ScaledObjects that scale a Rollout, by its name.
const rolloutIndex = "rollout"

// Add adds the part to a manager.
func Add(mgr manager.Manager, _ *agent.Settings, reporter *events.Reporter) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &scaledobject.ScaledObject{}, rolloutIndex, func(o client.Object) []string {
		so, ok := o.(*scaledobject.ScaledObject)
		if !ok || !trigger.TargetsRollout(so) {
			return nil
		}
		return []string{so.Spec.ScaleTargetRef.Name}
	})
	if err != nil {
		return err
	}
	r := &reconciler{Client: mgr.GetClient(), live: mgr.GetAPIReader(), reporter: reporter, now: time.Now, free: make(map[types.UID]time.Time)}
	c, err := builder.ControllerManagedBy(mgr).Named("objects").
		For(&scaledobject.ScaledObject{}, builder.WithPredicates(changed(reporter))).
		// An HTTPScaledObject has the name of its ScaledObject, also one that is not the agent's.
		Watches(&httpv1alpha1.HTTPScaledObject{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: atOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](leastWait, mostWait),
		}).
		Build(r)
	if err != nil {
		return err
	}
	if err := addRelay(mgr, reporter); err != nil {
		return err
	}
	return mgr.Add(&rolloutsWatch{mgr: mgr, controller: c, known: &r.rollouts})
}

// changed leaves out what KEDA writes into the status of a ScaledObject.
func changed(reporter *events.Reporter) predicate.Predicate {
	return predicate.And(
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}),
		predicate.Funcs{DeleteFunc: func(e event.DeleteEvent) bool {
			reporter.Forget(e.Object.GetUID())
			return true
		}},
	)
}

// get reads an object from the cache; nil if it is not there.
func get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c client.Reader, key types.NamespacedName) (P, error) {
	object := P(new(T))
	err := c.Get(ctx, key, object)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return object, nil
}

// serviceChanged lets through what changes the Service of a Rollout's stable side.
var serviceChanged = predicate.TypedFuncs[*v1alpha1.Rollout]{
	UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.Rollout]) bool {
		return trigger.StableService(e.ObjectOld) != trigger.StableService(e.ObjectNew)
	},
}
