package ingress

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/acknowledgement"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
)

// The reasons of Events.
const (
	// wired says on an Ingress that a path points at kedify-proxy. It is an Event of type Normal.
	wired = "Wired"
	// unwired says on an Ingress that a path points at its Service again. It is an Event of type
	// Normal.
	unwired = "PutBack"
	// fitsInPart says on an Ingress that a path admits requests of others, too, or does not fit
	// for another reason. The path stays as it is.
	fitsInPart = "FitsInPart"
	// writtenBack says on an Ingress that somebody has written the old backend back. The agent has
	// pointed the path at kedify-proxy again.
	writtenBack = "WrittenBack"
	// leftAlone says on an Ingress or its Rollout that somebody has written the old backend back too
	// often. The agent leaves the Ingress alone for `--autowire-cooldown`.
	leftAlone = "LeftAlone"
	// unreadable says on an Ingress that somebody has changed the annotation
	// `http.kedify.io/wired-paths`. The Ingress stays as it is. HTTPScaledObjects of the namespace
	// that are deleted wait for it. Point the paths at your Service, and remove the annotation.
	unreadable = "WiredPathsUnreadable"
	// notWritten says on an Ingress that the API server refuses the Ingress, or the agent's own
	// Ingress beside it. The Event says why.
	notWritten = "NotWritten"
)

const (
	// withoutProxy is for how long no kedify-proxy may be ready before Ingresses are put back.
	withoutProxy = 10 * time.Second
	// askAgain is how often interceptors are asked while an object waits for kedify-proxies.
	askAgain = time.Second
	// mostAskAgain is that for one that has waited long. Some are never acknowledged, such as
	// one that is not served as it is.
	mostAskAgain = 10 * time.Second
	// mostWhy is how many bytes are said about why an object is not wired: an annotation is no
	// place for what hundreds of Ingresses have.
	mostWhy = 1024
)

var errNoProxy = errors.New("no kedify-proxy is ready")

// reconciler decides about the Ingresses of a namespace.
type reconciler struct {
	client.Client
	reporter   *events.Reporter
	asker      *acknowledgement.Asker
	leaveAlone time.Duration
	// ownIngresses tells whether Ingresses of the agent's make backends known.
	ownIngresses bool
	now          func() time.Time

	mu         sync.Mutex
	namespaces map[string]*memory
}

// Reconcile compares the Ingresses of a namespace with what they should be.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	name := request.Name
	var (
		objects   httpv1alpha1.HTTPScaledObjectList
		ingresses networkingv1.IngressList
	)
	if err := errors.Join(r.List(ctx, &objects, client.InNamespace(name)), r.List(ctx, &ingresses, client.InNamespace(name))); err != nil {
		return reconcile.Result{}, err
	}
	if !slices.ContainsFunc(objects.Items, isConcerned) && !slices.ContainsFunc(ingresses.Items, isTouched) {
		r.forget(name)
		return reconcile.Result{}, nil
	}
	pods, err := r.proxies(ctx, name)
	if err != nil {
		return reconcile.Result{}, err
	}
	m := r.memoryOf(name)
	var again time.Duration
	sooner := func(d time.Duration) {
		if d > 0 && (again == 0 || d < again) {
			again = d
		}
	}
	left := m.withoutProxies(r.now(), len(pods) == 0)
	sooner(left)
	asked := false
	slices.SortFunc(objects.Items, func(a, b httpv1alpha1.HTTPScaledObject) int { return strings.Compare(a.Name, b.Name) })
	n := &namespace{
		objects: objects.Items, rules: order(objects.Items), paths: make(map[string][]requests),
		proxiesGone: len(pods) == 0 && left <= 0,
		samePort: func(service string, a, b networkingv1.ServiceBackendPort) bool {
			return r.samePort(ctx, name, service, a, b)
		},
		ready: func(o *httpv1alpha1.HTTPScaledObject) error {
			if len(pods) == 0 {
				return errNoProxy // the endpoints will change
			}
			err := r.acknowledged(ctx, m, pods, o)
			if err != nil {
				asked = true
				sooner(m.askAgain(o, pods, r.now()))
			}
			return err
		},
	}
	// A cache lists in any order, and what is said of several is to be the same each time.
	slices.SortFunc(ingresses.Items, func(a, b networkingv1.Ingress) int { return strings.Compare(a.Name, b.Name) })
	theirs, own := n.split(ingresses.Items)
	m.forgetOthers(ingresses.Items)
	all := newDecision()
	var failed []error
	for _, i := range theirs {
		d, wait, err := r.reconcileIngress(ctx, m, n, i, own[i.UID])
		if isOutdated(err) { // the cache will show what somebody has written meanwhile
			sooner(leastWait)
			err = nil
		}
		failed = append(failed, err)
		sooner(wait)
		all.wired = append(all.wired, d.wired...)
		maps.Copy(all.notWired, d.notWired)
		for object, partly := range d.partly {
			all.partly[object] = append(all.partly[object], partly...)
		}
	}
	if !asked {
		m.answers = nil
		clear(m.waiting)
	}
	for i := range objects.Items {
		err := r.tellObject(ctx, &objects.Items[i], all)
		if isOutdated(err) {
			sooner(leastWait)
			err = nil
		}
		failed = append(failed, client.IgnoreNotFound(err))
	}
	return reconcile.Result{RequeueAfter: again}, errors.Join(failed...)
}

// isConcerned tells whether an HTTPScaledObject is of interest here.
func isConcerned(o httpv1alpha1.HTTPScaledObject) bool { return isWanted(&o) || isNotWired(&o) }

// isTouched tells whether the agent has to do with an Ingress already.
func isTouched(i networkingv1.Ingress) bool {
	_, wired := i.Annotations[agent.WiredPathsAnnotation]
	return wired || isOwn(&i)
}

// isOutdated tells whether a write was refused because the object has changed: the condition
// of a JSON patch is no conflict to the API server, but an invalid patch of nothing.
func isOutdated(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return apierrors.IsConflict(err)
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

// split notes the paths of users' Ingresses, and returns these, and the agent's own by the UID
// of the user's that each is for.
func (n *namespace) split(all []networkingv1.Ingress) (theirs []*networkingv1.Ingress, own map[types.UID]*networkingv1.Ingress) {
	own = make(map[types.UID]*networkingv1.Ingress)
	for k := range all {
		i := &all[k]
		if isOwn(i) {
			own[metav1.GetControllerOf(i).UID] = i
			continue
		}
		theirs = append(theirs, i)
		for _, rule := range i.Spec.Rules {
			if rule.HTTP == nil {
				continue
			}
			for _, path := range rule.HTTP.Paths {
				if q, defined := requestsOf(rule.Host, path); defined {
					n.paths[classOf(i)] = append(n.paths[classOf(i)], q)
				}
			}
		}
	}
	return theirs, own
}

// reconcileIngress decides about one Ingress, and writes it if it has to be. It returns when
// to look at it again, 0 for when something changes.
func (r *reconciler) reconcileIngress(ctx context.Context, m *memory, n *namespace, i, own *networkingv1.Ingress) (*decision, time.Duration, error) {
	before, err := recordOf(i)
	if err != nil {
		r.reporter.Problem(i, unreadable, err.Error())
		return newDecision(), 0, nil
	}
	r.reporter.Solved(i, unreadable)
	wait, pause := r.pause(i)
	d := n.decide(i, before, pause)
	if len(d.partly) > 0 {
		r.reporter.Problem(i, fitsInPart, strings.Join(slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(d.partly))...))), "; "))
	} else {
		r.reporter.Solved(i, fitsInPart)
	}
	if r.writtenBackTooOften(m, i, d) {
		return d, leastWait, r.beginPause(ctx, m, i, d)
	}
	var known []networkingv1.IngressServiceBackend
	if r.ownIngresses {
		known = backends(before, d)
	}
	unknown, err := r.makeKnown(ctx, m, i, own, known)
	if unknown > 0 {
		return d, unknown, nil
	}
	if err != nil {
		// A path is put back, also if that may lose requests.
		d = d.withoutWiring(before)
	}
	if len(d.changes) > 0 || err == nil && !slices.Equal(d.record, before) {
		written := r.write(ctx, m, i, d)
		if less := d.withoutWiring(before); written != nil && !isOutdated(written) && len(less.changes) > 0 && len(less.changes) < len(d.changes) {
			err, d = written, less // what is refused may be the wiring
			written = r.write(ctx, m, i, d)
		}
		if written == nil {
			r.tellChanges(i, d)
		}
		err = errors.Join(err, written)
	}
	if err != nil && !isOutdated(err) {
		r.reporter.Problem(i, notWritten, fmt.Sprintf("the agent cannot point its paths where they belong: %v", err))
		return d.withoutWiring(before), wait, err
	}
	r.reporter.Solved(i, notWritten)
	return d, wait, err
}

// tellChanges writes Events about what was changed.
func (r *reconciler) tellChanges(i *networkingv1.Ingress, d *decision) {
	for _, c := range d.changes {
		if c.toProxy() {
			d.wired = append(d.wired, c.object)
			r.reporter.Done(i, wired, fmt.Sprintf("%s points at kedify-proxy now, for HTTPScaledObject %s", c.where, c.object))
		} else {
			r.reporter.Done(i, unwired, fmt.Sprintf("%s points at Service %s again", c.where, c.backend.Name))
		}
	}
	if len(d.rewritten) > 0 {
		r.reporter.Problem(i, writtenBack, fmt.Sprintf("somebody has written back what a path had before it pointed at kedify-proxy, for HTTPScaledObject %s: it points there again. Have the writer ignore the backend (docs/how-to/gitops.md)", d.rewritten[0]))
	}
}

// proxies returns the kedify-proxies of a namespace that are ready, as namespace/name.
func (r *reconciler) proxies(ctx context.Context, name string) ([]string, error) {
	endpoints, err := acknowledgement.ReadyEndpoints(ctx, r, client.ObjectKey{Namespace: name, Name: agent.ProxyService})
	if err != nil {
		return nil, err
	}
	var pods []string
	for _, e := range endpoints {
		pod := e.Addresses[0]
		if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
			pod = name + "/" + e.TargetRef.Name
		}
		pods = append(pods, pod)
	}
	slices.Sort(pods)
	return pods, nil
}

// acknowledged returns nil if all kedify-proxies have acknowledged an object as it is. What
// interceptors answer is asked once a second, for all objects of the namespace: an object
// that was acknowledged still is.
func (r *reconciler) acknowledged(ctx context.Context, m *memory, pods []string, o *httpv1alpha1.HTTPScaledObject) error {
	if m.answers == nil || r.now().Sub(m.asked) >= askAgain {
		answers, err := r.asker.Ask(ctx, o.Namespace)
		if err != nil {
			return err
		}
		m.answers, m.asked = answers, r.now()
	}
	return m.answers.By(pods, o)
}

// samePort compares two ports of a Service, which may be a name and a number.
func (r *reconciler) samePort(ctx context.Context, namespace, name string, a, b networkingv1.ServiceBackendPort) bool {
	if a == b {
		return true
	}
	var service corev1.Service
	if err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &service); err != nil {
		return false
	}
	number := func(p networkingv1.ServiceBackendPort) int32 {
		for _, port := range service.Spec.Ports {
			if p.Name != "" && port.Name == p.Name {
				return port.Port
			}
		}
		return p.Number
	}
	return number(a) != 0 && number(a) == number(b)
}

func isNotWired(o *httpv1alpha1.HTTPScaledObject) bool {
	_, is := o.Annotations[agent.NotWiredAnnotation]
	return is
}

// tellObject writes on an HTTPScaledObject why it is not wired, or removes what was written.
func (r *reconciler) tellObject(ctx context.Context, o *httpv1alpha1.HTTPScaledObject, all *decision) error {
	if agent.OwnerOf(o) == nil || o.DeletionTimestamp != nil {
		return nil
	}
	now, is := o.Annotations[agent.NotWiredAnnotation]
	if !isWanted(o) || slices.Contains(all.wired, o.Name) {
		if !is {
			return nil
		}
		changed := o.DeepCopy()
		delete(changed.Annotations, agent.NotWiredAnnotation)
		return r.patchObject(ctx, o, changed)
	}
	why := explain(o, all.notWired[o.Name], all.partly[o.Name])
	if len(why) > mostWhy {
		why = strings.ToValidUTF8(why[:mostWhy], "") + " ..."
	}
	if is && now == why {
		return nil
	}
	changed := o.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, agent.NotWiredAnnotation, why)
	return r.patchObject(ctx, o, changed)
}

func (r *reconciler) patchObject(ctx context.Context, o, changed *httpv1alpha1.HTTPScaledObject) error {
	return r.Patch(ctx, changed, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}), client.FieldOwner(agent.Name))
}

// rolloutOf returns the Rollout behind an HTTPScaledObject, to write Events on; nil for none.
func (r *reconciler) rolloutOf(ctx context.Context, namespace, object string) *v1alpha1.Rollout {
	var o httpv1alpha1.HTTPScaledObject
	if err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: object}, &o); err != nil || o.Spec.ScaleTargetRef.Kind != "Rollout" {
		return nil
	}
	ro := new(v1alpha1.Rollout)
	if err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: o.Spec.ScaleTargetRef.Name}, ro); err != nil {
		return nil
	}
	return ro
}
