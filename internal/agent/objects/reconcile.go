package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/trigger"
)

// The reasons of Events on a ScaledObject. Those of interceptors are told there too.
const (
	// invalidTrigger says on a ScaledObject that its trigger is wrong. The Event names the key and
	// what is right. The HTTPScaledObject stays as it was.
	invalidTrigger = "InvalidTrigger"
	// noService says on a ScaledObject that there is no Rollout of that name, or the Rollout names
	// no stable Service. For another workload, the trigger names no Service.
	noService = "NoService"
	// serviceIgnored says on a ScaledObject that `service` of its trigger is not the Rollout's
	// stable Service. The agent takes the stable Service.
	serviceIgnored = "ServiceIgnored"
	// notOurs says on a ScaledObject that the HTTPScaledObject of its name is somebody else's.
	// Hand it over with the annotation `http.kedify.io/adopt`.
	notOurs = "HTTPScaledObjectNotOwned"
	// takenOver says on a ScaledObject that the agent has taken over the HTTPScaledObject that was
	// handed over. It is an Event of type Normal.
	takenOver = "HTTPScaledObjectTakenOver"
	// refused says on a ScaledObject that the API server refuses its HTTPScaledObject: a quota, or
	// an admission webhook.
	refused = "HTTPScaledObjectRefused"
	// autowireNotYet says on a ScaledObject that `trafficAutowire` names another kind than
	// `ingress`. Point that kind at kedify-proxy yourself.
	autowireNotYet = "AutowireNotSupported"
	// triggerTypeStays says on a ScaledObject that its trigger [stays
	// `kedify-http`](../how-to/troubleshooting.md#a-kedify-http-trigger-stays-as-it-is). The API
	// server does not reach the webhook, or refuses the ScaledObject.
	triggerTypeStays = "TriggerTypeUnchanged"
)

// notWiredYet is the first value of agent.NotWiredAnnotation.
const notWiredYet = "no Ingress points at kedify-proxy yet"

// reconciler makes the HTTPScaledObject of a ScaledObject, which has the same name.
type reconciler struct {
	client.Client
	// live reads from the API server, past the cache.
	live     client.Reader
	reporter *events.Reporter
	now      func() time.Time
	// rollouts is what is known of the API server's Rollouts.
	rollouts atomic.Int32

	mu sync.Mutex
	// free has since when no Ingress has pointed at kedify-proxy for an HTTPScaledObject that
	// is being deleted.
	free map[types.UID]time.Time
}

// Reconcile compares an HTTPScaledObject with what its ScaledObject asks for, and writes it
// if they differ.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object, err := get[httpv1alpha1.HTTPScaledObject](ctx, r, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if object != nil && object.DeletionTimestamp != nil {
		// Another one can be made when it is gone.
		return r.release(ctx, object)
	}
	so, err := get[scaledobject.ScaledObject](ctx, r, request.NamespacedName)
	if err != nil || so == nil || so.DeletionTimestamp != nil {
		// Kubernetes deletes the HTTPScaledObject once its ScaledObject is gone.
		return reconcile.Result{}, err
	}
	t, err := trigger.Of(so)
	switch {
	case err != nil:
		r.problem(so, invalidTrigger, err)
		return reconcile.Result{}, nil
	case t == nil:
		return reconcile.Result{}, r.remove(ctx, so, object)
	}
	err = r.keep(ctx, so, t, object)
	switch {
	case errors.Is(err, errRolloutsUnread):
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	case apierrors.IsConflict(err):
		// Somebody has written meanwhile, and the cache will show it.
		return reconcile.Result{RequeueAfter: leastWait}, nil
	}
	return reconcile.Result{}, errors.Join(err, r.correctType(ctx, so, t))
}

// keep makes or writes the HTTPScaledObject of a trigger, if it has to be.
func (r *reconciler) keep(ctx context.Context, so *scaledobject.ScaledObject, t *scaledobject.Trigger, object *httpv1alpha1.HTTPScaledObject) error {
	wanted, err := r.wanted(ctx, so, t)
	if wanted == nil || err != nil {
		return err
	}
	switch {
	case object == nil:
		if kinds, _ := trigger.Autowire(wanted.Annotations[agent.AutowireAnnotation]); slices.Contains(kinds, trigger.Ingress) {
			wanted.Annotations[agent.NotWiredAnnotation] = notWiredYet
		}
		object, err = r.apply(ctx, wanted, nil)
	case madeByAgent(object, so):
		if !ownedBy(object, so) {
			if there, err := r.stillThere(ctx, so); !there {
				return err
			}
		}
		r.reporter.Solved(so, notOurs)
		keepNotWired(wanted, object)
		if !inStep(object, wanted) {
			object, err = r.write(ctx, wanted, object)
		}
	case object.Annotations[agent.AdoptAnnotation] == "true":
		keepNotWired(wanted, object)
		if object, err = r.takeOver(ctx, wanted, object); err == nil {
			r.reporter.Solved(so, notOurs)
			r.reporter.Done(so, takenOver, fmt.Sprintf("HTTPScaledObject %s/%s is the ScaledObject's now", so.Namespace, so.Name))
		}
	default:
		r.reporter.Problem(so, notOurs, fmt.Sprintf("HTTPScaledObject %s/%s was made by somebody else, and is left as it is. To hand it over in place, without losing a request: kubectl annotate -n %s httpscaledobject %s %s=true",
			so.Namespace, so.Name, so.Namespace, so.Name, agent.AdoptAnnotation))
		return nil
	}
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsRequestEntityTooLargeError(err):
		r.problem(so, refused, fmt.Errorf("the API server refuses HTTPScaledObject %s/%s, which stays as it was: %w", so.Namespace, so.Name, err))
		return err
	case err != nil:
		return err
	}
	r.reporter.Solved(so, refused)
	return r.writeStatus(ctx, so, object)
}

// stillThere asks the API server whether a ScaledObject is there and is not being deleted, before
// it becomes the owner of an object again. "kubectl delete --cascade=orphan" takes the owner
// away, and the cache may show that before it shows the deletion: with the owner back, Kubernetes
// would delete the object too.
func (r *reconciler) stillThere(ctx context.Context, so *scaledobject.ScaledObject) (bool, error) {
	now, err := get[scaledobject.ScaledObject](ctx, r.live, client.ObjectKeyFromObject(so))
	return now != nil && now.UID == so.UID && now.DeletionTimestamp == nil, err
}

// wanted returns what a ScaledObject asks for; nil if that cannot be had, which an Event tells
// then. The last good object stays.
func (r *reconciler) wanted(ctx context.Context, so *scaledobject.ScaledObject, t *scaledobject.Trigger) (*httpv1alpha1.HTTPScaledObject, error) {
	var ro *v1alpha1.Rollout
	if trigger.TargetsRollout(so) {
		var err error
		if ro, err = r.rollout(ctx, so); err != nil {
			return nil, err
		}
		if ro == nil {
			r.problem(so, noService, fmt.Errorf("there is no Rollout %s/%s, which names the Service: create it, or correct spec.scaleTargetRef", so.Namespace, so.Spec.ScaleTargetRef.Name))
			return nil, nil
		}
	}
	service, warning, err := trigger.Service(so, t, ro)
	if err != nil {
		r.problem(so, noService, err)
		return nil, nil
	}
	r.reporter.Solved(so, noService)
	r.tell(so, serviceIgnored, warning)
	wanted, err := trigger.Object(so, t, service)
	if err != nil {
		r.problem(so, invalidTrigger, err)
		return nil, nil
	}
	r.reporter.Solved(so, invalidTrigger)
	r.tellAutowire(so, wanted.Annotations[agent.AutowireAnnotation])
	return wanted, nil
}

// rollout returns the Rollout that a ScaledObject scales; nil if there is none.
func (r *reconciler) rollout(ctx context.Context, so *scaledobject.ScaledObject) (*v1alpha1.Rollout, error) {
	switch r.rollouts.Load() {
	case unread:
		return nil, errRolloutsUnread
	case none:
		return nil, nil
	}
	return get[v1alpha1.Rollout](ctx, r, types.NamespacedName{Namespace: so.Namespace, Name: so.Spec.ScaleTargetRef.Name})
}

func (r *reconciler) tellAutowire(so *scaledobject.ScaledObject, text string) {
	kinds, _ := trigger.Autowire(text)
	others := slices.DeleteFunc(kinds, func(kind string) bool { return kind == trigger.Ingress })
	var message string
	if len(others) > 0 {
		message = fmt.Sprintf("trafficAutowire has %s, which is not supported yet: point these at Service %s yourself, port %d, or use %s",
			strings.Join(others, ", "), agent.ProxyService, agent.ProxyPort, trigger.Ingress)
	}
	r.tell(so, autowireNotYet, message)
}

// tell tells a problem, or with an empty message that it is gone.
func (r *reconciler) tell(so *scaledobject.ScaledObject, reason, message string) {
	if message == "" {
		r.reporter.Solved(so, reason)
		return
	}
	r.reporter.Problem(so, reason, message)
}

func (r *reconciler) problem(so *scaledobject.ScaledObject, reason string, err error) {
	r.reporter.Problem(so, reason, strings.Join(strings.Fields(err.Error()), " "))
}

// remove deletes the HTTPScaledObject of a ScaledObject that has no kedify-http trigger any
// more.
func (r *reconciler) remove(ctx context.Context, so *scaledobject.ScaledObject, object *httpv1alpha1.HTTPScaledObject) error {
	for _, reason := range []string{invalidTrigger, noService, serviceIgnored, notOurs, refused, autowireNotYet, triggerTypeStays} {
		r.reporter.Solved(so, reason)
	}
	if object == nil || !ownedBy(object, so) {
		return nil
	}
	err := r.Delete(ctx, object, client.Preconditions{UID: &object.UID})
	return client.IgnoreNotFound(err)
}

// correctType has the webhook change a trigger that was written while it was away: to it,
// a patch that changes nothing is an update like any other. What the webhook changes counts
// as nobody's, so that the agent does not own spec.triggers afterwards.
func (r *reconciler) correctType(ctx context.Context, so *scaledobject.ScaledObject, t *scaledobject.Trigger) error {
	if t.Type != scaledobject.KedifyHTTP {
		r.reporter.Solved(so, triggerTypeStays)
		return nil
	}
	patched := so.DeepCopy()
	if err := r.Patch(ctx, patched, client.RawPatch(types.MergePatchType, []byte("{}")), client.FieldOwner(agent.Name)); err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			r.problem(so, triggerTypeStays, fmt.Errorf("the trigger is of type %s still, as the API server refuses the ScaledObject as it is: correct it, and apply it again: %w", scaledobject.KedifyHTTP, err))
		}
		return client.IgnoreNotFound(err)
	}
	if after, err := trigger.Of(patched); err == nil && after != nil && after.Type == scaledobject.KedifyHTTP {
		err := fmt.Errorf("the trigger is of type %s still, which KEDA does not know: the webhook of MutatingWebhookConfiguration %s has to change it, and does not (is its Service reachable from the API server?)",
			scaledobject.KedifyHTTP, agent.Name)
		r.problem(so, triggerTypeStays, err)
		return err
	}
	return nil
}
