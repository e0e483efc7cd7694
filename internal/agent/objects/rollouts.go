package objects

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// askForRollouts is how often a cluster without Rollouts is asked whether it has them now.
const askForRollouts = 10 * time.Second

// What is known of Rollouts. An agent that has just begun to lead has not read them: then
// nobody is told that there is none of a name.
const (
	unread int32 = iota
	none         // the API server has no such kind
	watched
)

var errRolloutsUnread = errors.New("the Rollouts have not been read yet")

// rolloutsWatch makes a controller watch Rollouts as soon as the API server has them: the
// agent runs where there are none, too.
type rolloutsWatch struct {
	mgr        manager.Manager
	controller controller.Controller
	known      *atomic.Int32
}

// Start waits for Rollouts, and returns.
func (w *rolloutsWatch) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, askForRollouts, true, func(ctx context.Context) (bool, error) {
		_, err := w.mgr.GetRESTMapper().RESTMapping(v1alpha1.SchemeGroupVersion.WithKind("Rollout").GroupKind(), v1alpha1.SchemeGroupVersion.Version)
		switch {
		case meta.IsNoMatchError(err):
			w.known.Store(none)
		case err != nil:
			log.FromContext(ctx).Error(err, "cannot ask whether there are Rollouts")
		}
		return err == nil, nil
	})
	if err != nil {
		return nil // the agent ends
	}
	w.known.Store(unread)
	if _, err := w.mgr.GetCache().GetInformer(ctx, &v1alpha1.Rollout{}); err != nil {
		return err
	}
	w.known.Store(watched)
	return w.controller.Watch(source.Kind(w.mgr.GetCache(), &v1alpha1.Rollout{},
		handler.TypedEnqueueRequestsFromMapFunc(w.scaledObjectsOf), serviceChanged))
}

// NeedLeaderElection says that this is the leader's, as the controller is.
func (w *rolloutsWatch) NeedLeaderElection() bool { return true }

// scaledObjectsOf returns the ScaledObjects that scale a Rollout.
func (w *rolloutsWatch) scaledObjectsOf(ctx context.Context, ro *v1alpha1.Rollout) []reconcile.Request {
	var list scaledobject.ScaledObjectList
	if err := w.mgr.GetClient().List(ctx, &list, client.InNamespace(ro.Namespace), client.MatchingFields{rolloutIndex: ro.Name}); err != nil {
		log.FromContext(ctx).Error(err, "cannot list ScaledObjects", "namespace", ro.Namespace)
		return nil
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i, so := range list.Items {
		requests[i].NamespacedName = types.NamespacedName{Namespace: so.Namespace, Name: so.Name}
	}
	return requests
}
