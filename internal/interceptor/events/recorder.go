package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// pacing says how fast Events are written.
type pacing struct {
	queued    int           // problems that a queue holds at most
	settle    time.Duration // before a problem is reported
	interval  time.Duration // between two requests
	leastWait time.Duration // after a request that failed
	mostWait  time.Duration
	refresh   time.Duration // after which the Event of a problem that still holds is renewed
	logged    int           // lines at most for the problems of one table
}

// standard makes 20 requests a second at most, and renews Events before API servers
// delete them, which is after an hour.
var standard = pacing{
	queued: 10000, settle: time.Second, interval: 50 * time.Millisecond,
	leastWait: 500 * time.Millisecond, mostWait: 10 * time.Second,
	refresh: 40 * time.Minute, logged: 100,
}

// Recorder reports the problems of each table, and further problems with
// HTTPScaledObjects that callers pass to Update. It is a watch.Consumer, and a
// prometheus.Collector.
type Recorder struct {
	client *rest.RESTClient
	log    *slog.Logger
	pacing pacing
	// fresh holds the problems that have not been logged yet, queue those that are to
	// have an Event.
	fresh, queue *queue

	mu   sync.Mutex
	open map[routes.Problem]struct{}

	written *prometheus.CounterVec
	waiting prometheus.GaugeFunc
}

// New makes a Recorder. It makes no request, and fails only on an invalid
// configuration. Nothing is written until Run.
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

// Update records which problems open and resolve; it ignores the table. It never waits,
// and is safe for concurrent use, also before Run.
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

// tell logs problems.
func (r *Recorder) tell(level slog.Level, what string, problems []routes.Problem) {
	for i, p := range problems {
		if i == r.pacing.logged {
			r.log.Log(context.Background(), level, what+": more of them, see the metric interceptor_table_problems", "more", len(problems)-i)
			return
		}
		r.log.Log(context.Background(), level, what, "namespace", p.Object.Namespace, "httpso", p.Object.Name, "reason", string(p.Reason), "message", p.Message)
	}
}

// add queues as many problems as there is room for, and reports those that are dropped.
func (r *Recorder) add(to *queue, problems []routes.Problem) {
	if dropped := to.add(problems); dropped > 0 {
		r.written.WithLabelValues("dropped").Add(float64(dropped))
		r.log.Warn("too many problems at once: some have no Event for now", "dropped", dropped, "waiting", to.len())
	}
}

// Run reports problems until ctx ends. The Event of a problem that still holds is
// renewed before the API server deletes it.
func (r *Recorder) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { r.report(ctx) })
	r.record(ctx)
	running.Wait()
}

// report logs the problems that have not gone away by the time they are due, and queues
// them for record. The log does not wait for the API server.
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
	w := newWriter(r)
	for {
		if now := time.Now(); now.After(again) {
			again = now.Add(r.pacing.refresh)
			r.add(r.queue, r.Problems())
		}
		p, wait, ok := r.queue.next()
		filled := r.queue.filled
		switch {
		case ok:
			wait, filled = w.write(ctx, p), nil // a new problem must not shorten the wait
		case wait < 0:
			clear(w.setbacks) // the queue is empty: their problems are gone
			wait = time.Until(again)
		}
		if !idle(ctx, wait, filled) {
			return
		}
	}
}

// idle waits for a time, without end if it is negative, or until filled signals; it
// returns false when ctx ends.
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

// Problems returns the problems that are open now, in no order.
func (r *Recorder) Problems() []routes.Problem {
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

var problemsDesc = prometheus.NewDesc("interceptor_table_problems",
	"What is wrong with HTTPScaledObjects now, by the reason of the Event that tells of it.", []string{"namespace", "httpso", "reason"}, nil)

// Describe is part of prometheus.Collector.
func (r *Recorder) Describe(descs chan<- *prometheus.Desc) {
	r.written.Describe(descs)
	r.waiting.Describe(descs)
	descs <- problemsDesc
}

// Collect is part of prometheus.Collector.
func (r *Recorder) Collect(collected chan<- prometheus.Metric) {
	r.written.Collect(collected)
	r.waiting.Collect(collected)
	type kind struct {
		object types.NamespacedName
		reason routes.Reason
	}
	count := make(map[kind]int)
	for _, p := range r.Problems() {
		count[kind{p.Object, p.Reason}]++
	}
	for k, n := range count {
		collected <- prometheus.MustNewConstMetric(problemsDesc, prometheus.GaugeValue, float64(n), k.object.Namespace, k.object.Name, string(k.reason))
	}
}
