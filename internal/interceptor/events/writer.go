package events

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// writer writes a Recorder's Events, one at a time. If an Event cannot be written now,
// its namespace is set aside for a while, longer each time, and Events of other
// namespaces are written meanwhile.
type writer struct {
	*Recorder
	setbacks map[string]setback // by namespace
	failed   int                // failures in a row that may concern all namespaces
}

// setback is why the Events of a namespace wait, and how long at a time.
type setback struct {
	why  trouble
	wait time.Duration
}

type trouble int

const (
	// away: the API server does not answer, or not as it should.
	away trouble = iota
	// forbidden: the API server does not let us write Events.
	forbidden
	// unwelcome: an admission webhook or policy rejects Events in this namespace.
	unwelcome
)

func newWriter(r *Recorder) *writer { return &writer{Recorder: r, setbacks: make(map[string]setback)} }

// write writes the Event of a problem that still holds, or puts it off, and returns how
// long to wait before the next Event.
func (w *writer) write(ctx context.Context, p routes.Problem) time.Duration {
	if !w.holds(p) {
		return 0
	}
	err := w.put(ctx, p)
	switch {
	case err == nil:
		w.written.WithLabelValues("written").Inc()
		w.over(p.Object.Namespace)
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The namespace goes, and the object with it.
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		w.written.WithLabelValues("refused").Inc()
		w.log.Error("the API server refuses an Event", "namespace", p.Object.Namespace, "httpso", p.Object.Name, "error", err)
	default:
		return w.putOff(p, err)
	}
	return w.pacing.interval
}

// putOff puts the problem back at the end of the queue.
func (w *writer) putOff(p routes.Problem, err error) time.Duration {
	namespace, why := p.Object.Namespace, troubleOf(err)
	last := w.setbacks[namespace]
	now := setback{why: why, wait: min(max(2*last.wait, w.pacing.leastWait), w.pacing.mostWait)}
	if last.wait == 0 || last.why != why {
		w.tellTrouble(namespace, why, err)
	}
	w.setbacks[namespace] = now
	w.queue.setAside(namespace, time.Now().Add(now.wait))
	w.add(w.queue, []routes.Problem{p})
	if why == unwelcome {
		return w.pacing.interval
	}
	// All namespaces may be in the same trouble.
	w.failed++
	wait := min(w.pacing.leastWait<<min(w.failed-1, 10), w.pacing.mostWait)
	return wait/2 + rand.N(wait/2+1)
}

func troubleOf(err error) trouble {
	switch {
	case apierrors.IsUnauthorized(err):
		return forbidden
	case !apierrors.IsForbidden(err):
		return away
	// An authorizer uses these words, an admission plugin does not.
	case strings.Contains(err.Error(), "cannot create resource") || strings.Contains(err.Error(), "cannot patch resource"):
		return forbidden
	}
	return unwelcome
}

// tellTrouble logs trouble when it begins: once for all namespaces, unless it concerns
// one namespace alone.
func (w *writer) tellTrouble(namespace string, why trouble, err error) {
	switch {
	case why == unwelcome:
		w.log.Error("an admission webhook or policy lets no Event into this namespace: its Events wait, those of others are written", "namespace", namespace, "error", err)
	case w.somewhere(why):
	case why == forbidden:
		w.log.Error("the API server refuses Events: they wait. Grant create and patch on events to the interceptor's ServiceAccount: kubectl apply -k deploy/interceptor", "error", err)
	default:
		w.log.Warn("Events cannot be written now: they wait", "error", err)
	}
}

// over is called when an Event of the namespace has been written.
func (w *writer) over(namespace string) {
	w.failed = 0
	was, ok := w.setbacks[namespace]
	if !ok {
		return
	}
	delete(w.setbacks, namespace)
	switch {
	case was.why == unwelcome:
		w.log.Info("Events of this namespace are written again", "namespace", namespace)
	case !w.somewhere(was.why):
		w.log.Info("Events are written again", "waiting", w.queue.len())
	}
}

// somewhere tells whether Events of any namespace wait for this reason.
func (w *writer) somewhere(why trouble) bool {
	for _, s := range w.setbacks {
		if s.why == why {
			return true
		}
	}
	return false
}

// put creates the Event of a problem. If the Event exists, another interceptor created
// it, or this one before a restart: put then sets its lastTimestamp, to say that the
// problem still holds.
func (w *writer) put(ctx context.Context, p routes.Problem) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	event := eventOf(p, time.Now())
	err := w.client.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch, err := json.Marshal(map[string]metav1.Time{"lastTimestamp": event.LastTimestamp})
	if err != nil {
		return err
	}
	return w.client.Patch(types.MergePatchType).Namespace(event.Namespace).Resource("events").Name(event.Name).Body(patch).Do(ctx).Error()
}
