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
	"k8s.io/client-go/util/workqueue"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// pacing says how fast Events are written, and how many.
type pacing struct {
	// settle is how long a problem is kept back at least, and twice as long at most. One
	// that is gone by then came only from the order in which objects arrived, such as an
	// object before its Service.
	settle    time.Duration
	perSecond float32 // requests
	timeout   time.Duration
	// leastWait is how long a namespace waits after a request that failed. It is doubled
	// each time, up to mostWait.
	leastWait, mostWait time.Duration
	refresh             time.Duration // after which the Event of a problem that still holds is renewed
	waiting             int           // problems of one namespace that may wait for their Events
	logged              int           // lines at a time for the problems of one namespace
}

// standard renews Events before API servers delete them, which is after an hour.
var standard = pacing{
	settle: time.Second, perSecond: 20, timeout: 5 * time.Second, leastWait: 500 * time.Millisecond, mostWait: time.Minute,
	refresh: 40 * time.Minute, waiting: 10000, logged: 20,
}

// workers is how many Events are written at a time, each of another namespace. A namespace
// whose requests take the whole timeout has a worker for a thirteenth of the time.
const workers = 10

// Recorder reports the problems of each table, and further problems with
// HTTPScaledObjects that callers pass to Update. It is a watch.Consumer, and a
// prometheus.Collector.
type Recorder struct {
	client *rest.RESTClient
	log    *slog.Logger
	pacing pacing
	// queue has the namespaces with Events to write. They take turns, with one Event each.
	queue workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// open has the problems that there are now, and opened those of them that came since
	// the last ones were reported.
	open   map[routes.Problem]*state
	opened []routes.Problem
	// waiting has the problems whose Events are to be written, by namespace, in order, and
	// those that are gone meanwhile. failing are the namespaces whose Events cannot be
	// written now.
	waiting map[string][]routes.Problem
	failing map[string]bool

	events       *prometheus.CounterVec
	waitingGauge prometheus.GaugeFunc
}

// state is what has been done about an open problem.
type state struct {
	logged  bool
	waiting bool // for its Event
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
	own.QPS, own.Burst, own.RateLimiter = p.perSecond, workers, nil
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client configuration: %w", err)
	}
	r := &Recorder{
		client: client, log: log, pacing: p,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](p.leastWait, p.mostWait)),
		open:  make(map[routes.Problem]*state), waiting: make(map[string][]routes.Problem), failing: make(map[string]bool),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_events_total",
			Help: "Events on HTTPScaledObjects, by what became of them: written, refused or dropped.",
		}, []string{"outcome"}),
	}
	r.waitingGauge = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "interceptor_events_waiting",
		Help: "Events on HTTPScaledObjects that are still to be written.",
	}, r.countWaiting)
	return r, nil
}

// Update records which problems open and resolve; it ignores the table. It never waits,
// and is safe for concurrent use, also before Run.
func (r *Recorder) Update(_ *routes.Table, changes routes.Changes) {
	var gone []routes.Problem
	r.mu.Lock()
	for _, p := range changes.Resolved {
		if s := r.open[p]; s != nil && s.logged {
			gone = append(gone, p)
		}
		delete(r.open, p)
	}
	for _, p := range changes.Opened {
		if r.open[p] == nil {
			r.open[p] = &state{}
			r.opened = append(r.opened, p)
		}
	}
	r.mu.Unlock()
	r.tell(slog.LevelInfo, "a problem with an HTTPScaledObject is gone", gone)
}

// tell logs problems.
func (r *Recorder) tell(level slog.Level, what string, problems []routes.Problem) {
	lines := make(map[string]int)
	for _, p := range problems {
		if lines[p.Object.Namespace]++; lines[p.Object.Namespace] <= r.pacing.logged {
			r.log.Log(context.Background(), level, what, "namespace", p.Object.Namespace, "httpso", p.Object.Name, "reason", string(p.Reason), "message", p.Message)
		}
	}
	for namespace, n := range lines {
		if n > r.pacing.logged {
			r.log.Log(context.Background(), level, what+": more of them, see the metric interceptor_table_problems", "namespace", namespace, "more", n-r.pacing.logged)
		}
	}
}

// Run reports problems until ctx ends; then it returns at once. The Event of a problem
// that still holds is renewed before the API server deletes it.
func (r *Recorder) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { r.write(ctx) })
	}
	r.report(ctx)
	r.queue.ShutDown()
	running.Wait()
}

// report logs the problems that have not gone away after pacing.settle, and has their
// Events written. The log does not wait for the API server.
func (r *Recorder) report(ctx context.Context) {
	settle, refresh := time.NewTicker(r.pacing.settle), time.NewTicker(r.pacing.refresh)
	defer settle.Stop()
	defer refresh.Stop()
	var settling []routes.Problem
	for {
		select {
		case <-ctx.Done():
			return
		case <-refresh.C:
			r.await(r.Problems())
		case <-settle.C:
			var settled []routes.Problem
			settled, settling = r.settle(settling)
			r.tell(slog.LevelWarn, "a problem with an HTTPScaledObject", settled)
			r.await(settled)
		}
	}
}

// settle returns those of the problems that still hold, and the ones that have opened
// since the last call.
func (r *Recorder) settle(settling []routes.Problem) (settled, opened []routes.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range settling {
		if s := r.open[p]; s != nil && !s.logged {
			s.logged = true
			settled = append(settled, p)
		}
	}
	opened, r.opened = r.opened, nil
	return settled, opened
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

// countWaiting counts the problems that have no Event yet and will have one.
func (r *Recorder) countWaiting() (n float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.open {
		if s.waiting || !s.logged {
			n++
		}
	}
	return n
}

var problemsDesc = prometheus.NewDesc("interceptor_table_problems",
	"What is wrong with an HTTPScaledObject now, by the reason of its Event.",
	// See [Events](events.md#events-of-the-interceptor).
	[]string{"namespace", "httpso", "reason"}, nil)

// Describe is part of prometheus.Collector.
func (r *Recorder) Describe(descs chan<- *prometheus.Desc) {
	r.events.Describe(descs)
	r.waitingGauge.Describe(descs)
	descs <- problemsDesc
}

// Collect is part of prometheus.Collector.
func (r *Recorder) Collect(collected chan<- prometheus.Metric) {
	r.events.Collect(collected)
	r.waitingGauge.Collect(collected)
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
