package events

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// await has the Events of problems written, of as many as may wait in each namespace, and
// reports those that are dropped.
func (r *Recorder) await(problems []routes.Problem) {
	ready, dropped := make(map[string]bool), make(map[string]int)
	r.mu.Lock()
	for _, p := range problems {
		namespace := p.Object.Namespace
		if _, seen := ready[namespace]; !seen {
			r.waiting[namespace] = slices.DeleteFunc(r.waiting[namespace], func(p routes.Problem) bool { return !r.waits(p) })
			ready[namespace] = !r.failing[namespace] // else it is in the queue, for later
		}
		s := r.open[p]
		switch {
		case s == nil || s.waiting:
		case len(r.waiting[namespace]) >= r.pacing.waiting:
			dropped[namespace]++
		default:
			s.waiting = true
			r.waiting[namespace] = append(r.waiting[namespace], p)
		}
	}
	r.mu.Unlock()
	for namespace, is := range ready {
		if is {
			r.queue.Add(namespace)
		}
	}
	for namespace, n := range dropped {
		r.events.WithLabelValues("dropped").Add(float64(n))
		r.log.Warn("too many problems at once: some have no Event for now", "namespace", namespace, "dropped", n)
	}
}

// waits tells whether the Event of a problem is still to be written. The caller has the
// lock.
func (r *Recorder) waits(p routes.Problem) bool {
	s := r.open[p]
	return s != nil && s.waiting
}

// next removes and returns the next problem of a namespace whose Event is to be written;
// false if there is none.
func (r *Recorder) next(namespace string) (routes.Problem, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range r.waiting[namespace] {
		if r.waits(p) {
			r.open[p].waiting = false
			r.waiting[namespace] = r.waiting[namespace][i+1:]
			return p, true
		}
	}
	delete(r.waiting, namespace)
	delete(r.failing, namespace)
	return routes.Problem{}, false
}

// write writes Events until the queue is shut down: one of the namespace whose turn it
// is, and then the namespace queues up again.
func (r *Recorder) write(ctx context.Context) {
	for {
		namespace, ended := r.queue.Get()
		if ended {
			return
		}
		p, found := r.next(namespace)
		switch {
		case !found:
			r.queue.Forget(namespace)
		case r.writeEvent(ctx, p):
			r.queue.Add(namespace)
		default:
			r.queue.AddRateLimited(namespace)
		}
		r.queue.Done(namespace)
	}
}

// writeEvent writes the Event of a problem. It returns false if none can be written in its
// namespace now: the problem then waits behind the others of the namespace.
func (r *Recorder) writeEvent(ctx context.Context, p routes.Problem) bool {
	err := r.put(ctx, p)
	switch {
	case err == nil:
		r.events.WithLabelValues("written").Inc()
		r.recovers(p.Object.Namespace)
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The namespace goes, and the object with it.
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		r.events.WithLabelValues("refused").Inc()
		r.log.Error("the API server refuses an Event", "namespace", p.Object.Namespace, "httpso", p.Object.Name, "error", err)
	default:
		r.putOff(p, err)
		return false
	}
	return true
}

// put creates the Event of a problem. If the Event exists, another interceptor created
// it, or this one before a restart: put then sets its lastTimestamp, to say that the
// problem still holds.
func (r *Recorder) put(ctx context.Context, p routes.Problem) error {
	ctx, cancel := context.WithTimeout(ctx, r.pacing.timeout)
	defer cancel()
	event := eventOf(p, time.Now())
	// The namespace waits in our queue, and not in the client.
	err := r.client.Post().MaxRetries(0).Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch, err := json.Marshal(map[string]metav1.Time{"lastTimestamp": event.LastTimestamp})
	if err != nil {
		return err
	}
	return r.client.Patch(types.MergePatchType).MaxRetries(0).Namespace(event.Namespace).Resource("events").Name(event.Name).Body(patch).Do(ctx).Error()
}

// putOff puts a problem that still holds behind the others of its namespace. The log has
// the error of the first one.
func (r *Recorder) putOff(p routes.Problem, err error) {
	namespace := p.Object.Namespace
	r.mu.Lock()
	was := r.failing[namespace]
	r.failing[namespace] = true
	if s := r.open[p]; s != nil && !s.waiting {
		s.waiting = true
		r.waiting[namespace] = append(r.waiting[namespace], p)
	}
	r.mu.Unlock()
	if was {
		return
	}
	why := "an admission webhook or policy may refuse them, or the API server is busy or away"
	// An authorizer uses these words, an admission plugin does not.
	if strings.Contains(err.Error(), "cannot create resource") || strings.Contains(err.Error(), "cannot patch resource") {
		why = "grant create and patch on events to the interceptor's ServiceAccount: kubectl apply -k deploy/interceptor"
	}
	r.log.Error("Events of this namespace cannot be written now: they wait, those of others are written", "namespace", namespace, "error", err, "why", why)
}

// recovers is called when an Event of a namespace has been written.
func (r *Recorder) recovers(namespace string) {
	r.queue.Forget(namespace)
	r.mu.Lock()
	failed := r.failing[namespace]
	delete(r.failing, namespace)
	r.mu.Unlock()
	if failed {
		r.log.Info("Events of this namespace are written again", "namespace", namespace)
	}
}
