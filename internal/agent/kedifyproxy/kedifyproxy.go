// Package kedifyproxy makes the kedify-proxy of each namespace that has HTTPScaledObjects of
// the agent's, and removes it. Its objects are those of deploy/kedify-proxy, which a ConfigMap
// beside the agent has, for people to change.
package kedifyproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
)

// The reasons of Events on the ConfigMap.
const (
	// problemTemplate says on the ConfigMap that what it has is no kedify-proxy. Namespaces keep
	// the kedify-proxy that they have.
	problemTemplate = "KedifyProxyTemplate"
	// problemRefused says on the ConfigMap that the API server refuses an object of it in a
	// namespace, which the Event names. Namespaces keep the kedify-proxy that they have.
	problemRefused = "KedifyProxyRefused"
)

// ofAgent is an index of the HTTPScaledObjects that the agent has made, by namespace.
const ofAgent = "kedify-proxy-of-agent"

// reconciler makes and removes the kedify-proxy of a namespace.
type reconciler struct {
	client   client.Client
	live     live
	key      types.NamespacedName // of the ConfigMap
	reporter *events.Reporter

	mu sync.Mutex
	// read is the ConfigMap that was read last, and good the last template that was as expected.
	read *corev1.ConfigMap
	good template
	// refused is the namespace whose refusal has an Event. Others are in the log, so that
	// one mistake does not make an Event for each namespace.
	refused string
}

// Add adds the part to a manager.
func Add(mgr manager.Manager, s *agent.Settings, reporter *events.Reporter) error {
	if !s.KedifyProxy {
		return nil
	}
	caches, err := newCaches(mgr)
	if err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &httpv1alpha1.HTTPScaledObject{}, ofAgent, isOfAgent); err != nil {
		return err
	}
	r := newReconciler(mgr.GetClient(), s, reporter)
	for name, c := range caches {
		r.live[name] = c
	}
	// One namespace after the other: a change of the ConfigMap does not reach all at once.
	b := builder.ControllerManagedBy(mgr).Named("kedify-proxy").WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Watches(&httpv1alpha1.HTTPScaledObject{}, handler.EnqueueRequestsFromMapFunc(namespaceOf), builder.WithPredicates(predicate.Funcs{UpdateFunc: changesHands})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.allNamespaces), builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return client.ObjectKeyFromObject(o) == r.key
		})))
	for _, p := range parts {
		b = b.WatchesRawSource(source.Kind[client.Object](caches[p.name], metadataOf(p), handler.EnqueueRequestsFromMapFunc(namespaceOf)))
	}
	return b.Complete(r)
}

func newReconciler(c client.Client, s *agent.Settings, reporter *events.Reporter) *reconciler {
	return &reconciler{
		client: c, live: live{}, reporter: reporter,
		key: types.NamespacedName{Namespace: s.Namespace, Name: s.KedifyProxyConfigMap},
	}
}

// isOfAgent is the value of the index ofAgent.
func isOfAgent(object client.Object) []string {
	if !needsProxy(object) {
		return nil
	}
	return []string{"true"}
}

// needsProxy tells whether an HTTPScaledObject is the agent's. One whose ScaledObject was
// deleted without it (--cascade=orphan) has no owner, and is served on: Ingresses still point
// at kedify-proxy when it loses its owner.
func needsProxy(object client.Object) bool {
	return agent.OwnerOf(object.(*httpv1alpha1.HTTPScaledObject)) != nil || controllerutil.ContainsFinalizer(object, agent.Finalizer)
}

// namespaceOf returns the request for the namespace of an object.
func namespaceOf(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: object.GetNamespace()}}}
}

// changesHands tells whether the agent takes or leaves an HTTPScaledObject. What else changes
// does not matter here.
func changesHands(e event.UpdateEvent) bool {
	return needsProxy(e.ObjectOld) != needsProxy(e.ObjectNew)
}

// allNamespaces returns requests for the namespaces that have HTTPScaledObjects of the agent's.
func (r *reconciler) allNamespaces(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	if _, err := r.template(ctx); err != nil {
		log.FromContext(ctx).Error(err, "the ConfigMap cannot be read")
	}
	objects := &httpv1alpha1.HTTPScaledObjectList{}
	if err := r.client.List(ctx, objects, client.MatchingFields{ofAgent: "true"}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "HTTPScaledObjects cannot be listed")
	}
	seen := map[string]bool{}
	for i := range objects.Items {
		if o := &objects.Items[i]; !seen[o.Namespace] {
			seen[o.Namespace] = true
			requests = append(requests, namespaceOf(ctx, o)...)
		}
	}
	return requests
}

// Reconcile makes a namespace have a kedify-proxy if it needs one, and none of ours if not.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	namespace := request.Name
	objects := &httpv1alpha1.HTTPScaledObjectList{}
	if err := r.client.List(ctx, objects, client.InNamespace(namespace), client.MatchingFields{ofAgent: "true"}, client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, err
	}
	there := map[part]*metav1.PartialObjectMetadata{}
	for _, p := range parts {
		found, err := r.live.get(ctx, p, namespace)
		if err != nil {
			return reconcile.Result{}, err
		}
		if found != nil {
			there[p] = found
		}
	}
	if len(objects.Items) == 0 {
		r.tell(namespace, nil) // the next namespace that is refused has its Event
		return reconcile.Result{}, r.remove(ctx, there, nil)
	}
	for _, p := range []part{service, deployment} {
		if there[p] != nil && !ours(there[p]) {
			return reconcile.Result{}, nil
		}
	}
	t, err := r.template(ctx)
	if err != nil || t == nil {
		return reconcile.Result{}, err
	}
	err = r.apply(ctx, t, namespace, there)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		r.tell(namespace, nil)
		return reconcile.Result{}, nil
	}
	r.tell(namespace, err)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.remove(ctx, there, t)
}

// remove deletes our objects that a template does not have.
func (r *reconciler) remove(ctx context.Context, there map[part]*metav1.PartialObjectMetadata, t template) error {
	var failed []error
	for _, p := range slices.Backward(parts) {
		if there[p] != nil && t[p] == nil {
			failed = append(failed, remove(ctx, r.client, p, there[p]))
		}
	}
	return errors.Join(failed...)
}

// apply applies those objects of a template that are not as they were applied. The API server
// is asked about all of them first, so that a namespace keeps the last good ones if it refuses
// one.
func (r *reconciler) apply(ctx context.Context, t template, namespace string, there map[part]*metav1.PartialObjectMetadata) error {
	var changes []*unstructured.Unstructured
	for _, p := range parts {
		found := there[p]
		if found != nil && (!ours(found) || found.DeletionTimestamp != nil) {
			continue
		}
		want := t.wanted(p, namespace, found != nil && found.Annotations[scaledAnnotation] != "")
		if want == nil || found != nil && found.Annotations[appliedAnnotation] == applied(want, found) {
			continue
		}
		if found != nil {
			want.SetUID(found.UID) // not one that somebody else makes meanwhile
		}
		changes = append(changes, want)
	}
	for _, object := range changes {
		tried := object.DeepCopy()
		if err := r.applyOne(ctx, tried, client.DryRunAll); err != nil {
			return err
		}
		owned, err := summary(tried)
		if err != nil {
			return err
		}
		setApplied(object, applied(object, owned))
	}
	for _, object := range changes {
		if err := r.applyOne(ctx, object); err != nil {
			return err
		}
	}
	if len(changes) > 0 {
		log.FromContext(ctx).Info("applied kedify-proxy", "objects", len(changes)) // the log has the namespace
	}
	return nil
}

// applied returns what appliedAnnotation says as long as nobody has changed what the agent
// owns of an object.
func applied(want *unstructured.Unstructured, found *metav1.PartialObjectMetadata) string {
	return want.GetAnnotations()[appliedAnnotation] + "." + found.Annotations[fieldsAnnotation]
}

func (r *reconciler) applyOne(ctx context.Context, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	what := fmt.Sprintf("%s %s to namespace %s", object.GetKind(), object.GetName(), object.GetNamespace())
	options = append(options, client.FieldOwner(agent.Name), client.ForceOwnership)
	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return fmt.Errorf("applying %s: %w", what, err)
	}
	return nil
}

// template returns the last template that was as expected; nil if none has been.
func (r *reconciler) template(ctx context.Context) (template, error) {
	read := &corev1.ConfigMap{}
	if err := r.client.Get(ctx, r.key, read); client.IgnoreNotFound(err) != nil {
		return nil, err
	} else if err != nil {
		log.FromContext(ctx).Info("the ConfigMap with the manifests of kedify-proxy is missing: apply deploy/agent, or set --kedify-proxy=false", "configMap", r.key.String())
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.good, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read != nil && r.read.UID == read.UID && r.read.ResourceVersion == read.ResourceVersion {
		return r.good, nil
	}
	r.read = read
	t, err := parse(read.Data)
	if err != nil {
		log.FromContext(ctx).Error(err, "the ConfigMap with the manifests of kedify-proxy is not as expected", "configMap", r.key.String())
		r.reporter.Problem(read, problemTemplate, fmt.Sprintf("%v. Namespaces keep the kedify-proxy that they have", err))
		return r.good, nil
	}
	r.reporter.Solved(read, problemTemplate)
	r.good = t
	return t, nil
}

// tell writes an Event when the API server refuses an object.
func (r *reconciler) tell(namespace string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && r.refused == namespace:
		r.reporter.Solved(r.read, problemRefused)
		r.refused = ""
	case err != nil && !apierrors.IsConflict(err) && (r.refused == "" || r.refused == namespace):
		r.reporter.Problem(r.read, problemRefused, fmt.Sprintf("%v. Namespaces keep the kedify-proxy that they have", err))
		r.refused = namespace
	}
}
