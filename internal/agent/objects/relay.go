package objects

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// fresh is for how long the Event of an interceptor is news. They write it again while what
// it is about lasts; one that a starting agent finds may be about what is over.
const fresh = 5 * time.Minute

// relay tells on ScaledObjects what interceptors say, by Warning Events, of HTTPScaledObjects
// of the agent's: people who have written the one need not know of the other.
type relay struct {
	client.Client
	reporter *events.Reporter
	now      func() time.Time
}

// addRelay adds a relay to a manager, whose cache has the Events of interceptors alone.
func addRelay(mgr manager.Manager, reporter *events.Reporter) error {
	return builder.ControllerManagedBy(mgr).Named("relay").For(&corev1.Event{}).
		Complete(&relay{Client: mgr.GetClient(), reporter: reporter, now: time.Now})
}

// Reconcile relays one Event.
func (r *relay) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	event, err := get[corev1.Event](ctx, r, request.NamespacedName)
	if err != nil || event == nil || r.now().Sub(event.LastTimestamp.Time) > fresh {
		return reconcile.Result{}, err
	}
	name := types.NamespacedName{Namespace: event.Namespace, Name: event.InvolvedObject.Name}
	object, err := get[httpv1alpha1.HTTPScaledObject](ctx, r, name)
	if err != nil || object == nil || object.UID != event.InvolvedObject.UID {
		return reconcile.Result{}, err
	}
	so, err := get[scaledobject.ScaledObject](ctx, r, name)
	if err != nil || so == nil || !ownedBy(object, so) {
		return reconcile.Result{}, err
	}
	r.reporter.Problem(so, event.Reason, fmt.Sprintf("interceptors say of its HTTPScaledObject: %s", event.Message))
	return reconcile.Result{}, nil
}
