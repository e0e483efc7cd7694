package rolloutsplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// repeatAfter is when a warning that still holds becomes an Event again: API
	// servers keep Events for an hour.
	repeatAfter = 50 * time.Minute
	// eventsAtOnce bounds the namespaces whose Events are written at the same time. Those
	// of one namespace are written one after the other.
	eventsAtOnce = 16
	// queuedEvents bounds the Events that wait for the API server, and queuedEach those of
	// one namespace.
	queuedEvents = 1000
	queuedEach   = 200
	// eventTimeout bounds one attempt to write an Event.
	eventTimeout = 10 * time.Second
	// messageLimit is the API server's limit of an Event's message, in bytes.
	messageLimit = 1024
)

// Events writes Events: the controller makes Events only of SetWeight's errors, so
// warnings of a call that succeeds, and what happens between two calls, would be in the
// log only. It is safe for concurrent use, and never waits for the API server.
type Events struct {
	objects   *kube.Objects
	component string
	logger    hclog.Logger
	shares    *Shares
	ctx       context.Context
	cancel    context.CancelFunc
	// unwritten counts the Events that wait and those that are being written.
	unwritten atomic.Int32

	mu   sync.Mutex
	told map[warning]time.Time
}

// warning is the key that tells one warning from another.
type warning struct {
	kind          string
	uid           types.UID
	object        types.NamespacedName
	reason, topic string
}

// NewEvents returns Events in the name of a component, written with the
// configuration that connect returns. It makes no request until the first
// Event.
func NewEvents(connect func() (*rest.Config, error), component string, logger hclog.Logger) *Events {
	e := &Events{
		objects: kube.NewObjects(connect), component: component, logger: logger,
		shares: NewShares(eventsAtOnce, 1), told: map[warning]time.Time{},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Close drops Events that have not been written.
func (e *Events) Close() { e.cancel() }

// Flush waits until all Events have been written, or until ctx has ended.
func (e *Events) Flush(ctx context.Context) {
	for e.unwritten.Load() > 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// Warn writes a Warning Event about an object, and a line in the log. The same reason
// and topic for the same object is reported once, and again after 50 minutes if Warn is
// called for it then. The topic is what the warning is about; the message may have
// details that change from one time to the next. An Event that the API server does not
// accept within about a minute is in the log alone.
func (e *Events) Warn(about *corev1.ObjectReference, reason, topic, message string) {
	if !e.due(warning{about.Kind, about.UID, types.NamespacedName{Namespace: about.Namespace, Name: about.Name}, reason, topic}) {
		return
	}
	e.logger.Warn(message, "reason", reason, "object", objectOf(about))
	e.enqueue(about, corev1.EventTypeWarning, reason, message)
}

// Note writes a Normal Event about an object, and a line in the log. It does so each time.
func (e *Events) Note(about *corev1.ObjectReference, reason, message string) {
	e.logger.Info(message, "reason", reason, "object", objectOf(about))
	e.enqueue(about, corev1.EventTypeNormal, reason, message)
}

func objectOf(about *corev1.ObjectReference) string {
	return fmt.Sprintf("%s %s/%s", about.Kind, about.Namespace, about.Name)
}

// enqueue queues an Event.
func (e *Events) enqueue(about *corev1.ObjectReference, eventType, reason, message string) {
	now := metav1.Now()
	event := &corev1.Event{
		TypeMeta:            metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
		ObjectMeta:          metav1.ObjectMeta{Namespace: about.Namespace, Name: fmt.Sprintf("%s.%x", about.Name, now.UnixNano())},
		InvolvedObject:      *about,
		Type:                eventType,
		Reason:              reason,
		Message:             shorten(message),
		Source:              corev1.EventSource{Component: e.component},
		ReportingController: e.component,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
	}
	if e.unwritten.Load() >= queuedEvents || e.shares.Waiting(event.Namespace) >= queuedEach {
		e.logger.Warn("too many Events wait for the API server: one is in the log alone", "object", objectOf(about))
		return
	}
	e.unwritten.Add(1)
	e.shares.Go(event.Namespace, func() {
		defer e.unwritten.Add(-1)
		e.writeOrLog(event)
	})
}

func (e *Events) due(w warning) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if at, ok := e.told[w]; ok && now.Sub(at) < repeatAfter {
		return false
	}
	for old, at := range e.told {
		if now.Sub(at) >= repeatAfter {
			delete(e.told, old)
		}
	}
	e.told[w] = now
	return true
}

// Prune drops which warnings about Rollouts that are gone have been written.
func (e *Events) Prune(gone func(types.NamespacedName) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.told, func(w warning, _ time.Time) bool { return w.kind == "Rollout" && gone(w.object) })
}

func (e *Events) writeOrLog(event *corev1.Event) {
	defer LogPanic(e.logger, "writing an Event")
	if e.ctx.Err() != nil {
		return
	}
	if err := e.write(event); err != nil {
		e.logger.Warn("an Event could not be written", "event", event.Message, "error", err)
	}
}

func (e *Events) write(event *corev1.Event) error {
	var failure error
	backoff := wait.Backoff{Duration: time.Second, Factor: 3, Steps: 4}
	if err := wait.ExponentialBackoffWithContext(e.ctx, backoff, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, eventTimeout)
		defer cancel()
		failure = e.objects.Create(ctx, corev1.SchemeGroupVersion.WithResource("events"), event.Namespace, event)
		switch {
		// An earlier attempt may have been carried out without an answer.
		case failure == nil, apierrors.IsAlreadyExists(failure):
			failure = nil
			return true, nil
		// One namespace that accepts no Events must not hold up the others.
		case refused(failure):
			return false, failure
		}
		return false, nil
	}); err != nil && failure == nil {
		return err
	}
	return failure
}

// refused tells whether the API server has answered, and would answer the same
// again.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err)
}

func shorten(message string) string {
	if len(message) <= messageLimit {
		return message
	}
	const more = "… (all of it is in the controller's log)"
	return strings.ToValidUTF8(message[:messageLimit-len(more)], "") + more
}

// RolloutReference names a Rollout in an Event.
func RolloutReference(ro *v1alpha1.Rollout) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Rollout",
		Namespace: ro.Namespace, Name: ro.Name, UID: ro.UID, ResourceVersion: ro.ResourceVersion,
	}
}
