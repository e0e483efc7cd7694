package events

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// pacing says how fast Events are written.
type pacing struct {
	queued    int           // problems that wait to be told of
	settle    time.Duration // before a problem is told of
	interval  time.Duration // between two requests
	leastWait time.Duration // after a request that failed
	mostWait  time.Duration
	refresh   time.Duration // after which what still holds is told again
	logged    int           // lines for the problems of one table
}

// standard paces as a cluster wants it: 20 requests a second at most. API servers
// keep Events for an hour.
var standard = pacing{
	queued: 10000, settle: time.Second, interval: 50 * time.Millisecond,
	leastWait: 500 * time.Millisecond, mostWait: 10 * time.Second,
	refresh: 40 * time.Minute, logged: 100,
}

// Recorder tells of the problems of each table. It is a watch.Consumer, and a
// prometheus.Collector.
type Recorder struct {
	client *rest.RESTClient
	log    *slog.Logger
	pacing pacing
	// fresh are problems of which nobody has been told, queue those that are
	// to have an Event.
	fresh, queue *queue

	mu   sync.Mutex
	open map[routes.Problem]struct{}

	written *prometheus.CounterVec
	waiting prometheus.GaugeFunc
}

// New makes a Recorder. It makes no request, and fails only on a configuration
// that cannot be. Nothing is written until Run.
func New(config *rest.Config, log *slog.Logger) (*Recorder, error) {
	return newRecorder(config, log, standard)
}

func newRecorder(config *rest.Config, log *slog.Logger, p pacing) (*Recorder, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath = &corev1.SchemeGroupVersion, "/api"
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client configuration: %w", err)
	}
	r := &Recorder{
		client: client, log: log, pacing: p, fresh: newQueue(p.queued, p.settle), queue: newQueue(p.queued, 0),
		open: make(map[routes.Problem]struct{}),
		written: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_events_total",
			Help: "Events on HTTPScaledObjects, by what became of them: written, refused or dropped.",
		}, []string{"outcome"}),
	}
	r.waiting = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "interceptor_events_waiting",
		Help: "Events on HTTPScaledObjects that are still to be written.",
	}, func() float64 { return float64(r.fresh.len() + r.queue.len()) })
	return r, nil
}

// Update notes what opens and resolves; of the table it needs nothing. It never
// waits, and may be called at any time by anybody.
func (r *Recorder) Update(_ *routes.Table, changes routes.Changes) {
	r.mu.Lock()
	for _, p := range changes.Resolved {
		delete(r.open, p)
	}
	for _, p := range changes.Opened {
		r.open[p] = struct{}{}
	}
	r.mu.Unlock()
	told := r.fresh.remove(changes.Resolved)
	r.queue.remove(changes.Resolved)
	r.tell(slog.LevelInfo, "a problem with an HTTPScaledObject is gone", told)
	r.add(r.fresh, changes.Opened)
}

// tell writes the log.
func (r *Recorder) tell(level slog.Level, what string, problems []routes.Problem) {
	for i, p := range problems {
		if i == r.pacing.logged {
			r.log.Log(context.Background(), level, what+": more of them, see the metric interceptor_table_problems", "more", len(problems)-i)
			return
		}
		r.log.Log(context.Background(), level, what, "namespace", p.Object.Namespace, "httpso", p.Object.Name, "reason", string(p.Reason), "message", p.Message)
	}
}

// add queues as many as there is room for.
func (r *Recorder) add(to *queue, problems []routes.Problem) {
	if dropped := to.add(problems); dropped > 0 {
		r.written.WithLabelValues("dropped").Add(float64(dropped))
		r.log.Warn("too many problems at once: some have no Event for now", "dropped", dropped, "waiting", to.len())
	}
}

// Run tells of problems until ctx ends. What still holds is told again before the
// API server forgets it.
func (r *Recorder) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { r.report(ctx) })
	r.record(ctx)
	running.Wait()
}

// report tells the log of what has come to stay, and leaves it to record. The log
// does not wait for the API server.
func (r *Recorder) report(ctx context.Context) {
	for {
		var told []routes.Problem
		p, wait, ok := r.fresh.next()
		for ; ok; p, wait, ok = r.fresh.next() {
			told = append(told, p)
		}
		r.tell(slog.LevelWarn, "a problem with an HTTPScaledObject", told)
		r.add(r.queue, told)
		if !idle(ctx, wait, r.fresh.filled) {
			return
		}
	}
}

// record writes Events, one after the other.
func (r *Recorder) record(ctx context.Context) {
	again := time.Now().Add(r.pacing.refresh)
	for {
		if now := time.Now(); now.After(again) {
			again = now.Add(r.pacing.refresh)
			r.add(r.queue, r.stillOpen())
		}
		p, wait, ok := r.queue.next()
		filled := r.queue.filled
		switch {
		case ok:
			r.write(ctx, p)
			wait, filled = r.pacing.interval, nil // which is to be kept
		case wait < 0:
			wait = time.Until(again)
		}
		if !idle(ctx, wait, filled) {
			return
		}
	}
}

// idle waits for a time, without end when it is negative, or until there is more;
// it returns false when ctx ends.
func idle(ctx context.Context, wait time.Duration, filled <-chan struct{}) bool {
	var due <-chan time.Time
	if wait >= 0 {
		due = time.After(wait)
	}
	select {
	case <-ctx.Done():
		return false
	case <-due:
	case <-filled:
	}
	return true
}

func (r *Recorder) stillOpen() []routes.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := make([]routes.Problem, 0, len(r.open))
	for p := range r.open {
		open = append(open, p)
	}
	return open
}

func (r *Recorder) holds(p routes.Problem) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.open[p]
	return ok
}

// write writes one Event, until the API server has taken or refused it or the
// problem is gone.
func (r *Recorder) write(ctx context.Context, p routes.Problem) {
	wait := r.pacing.leastWait
	for failed := 0; r.holds(p); failed++ {
		err := r.put(ctx, p)
		switch {
		case err == nil:
			r.written.WithLabelValues("written").Inc()
			if failed > 0 {
				r.log.Info("Events are written again", "waiting", r.queue.len())
			}
			return
		case ctx.Err() != nil:
			return
		case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return // the namespace goes, and the object with it
		case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
			r.written.WithLabelValues("refused").Inc()
			r.log.Error("the API server refuses an Event", "namespace", p.Object.Namespace, "httpso", p.Object.Name, "error", err)
			return
		case failed > 0:
			// Told already.
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			r.log.Error("the API server refuses Events: they wait. Grant create and patch on events to the interceptor's ServiceAccount: kubectl apply -k deploy/interceptor", "error", err)
		default:
			r.log.Warn("Events cannot be written now: they wait", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		}
		wait = min(2*wait, r.pacing.mostWait)
	}
}

// put makes the Event of a problem; if it is there, another interceptor made it,
// or this one in an earlier life, and it is told that the problem still holds.
func (r *Recorder) put(ctx context.Context, p routes.Problem) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	event := eventOf(p, time.Now())
	err := r.client.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch, err := json.Marshal(map[string]metav1.Time{"lastTimestamp": event.LastTimestamp})
	if err != nil {
		return err
	}
	return r.client.Patch(types.MergePatchType).Namespace(event.Namespace).Resource("events").Name(event.Name).Body(patch).Do(ctx).Error()
}

// Describe is part of prometheus.Collector.
func (r *Recorder) Describe(descs chan<- *prometheus.Desc) {
	r.written.Describe(descs)
	r.waiting.Describe(descs)
}

// Collect is part of prometheus.Collector.
func (r *Recorder) Collect(collected chan<- prometheus.Metric) {
	r.written.Collect(collected)
	r.waiting.Collect(collected)
}
