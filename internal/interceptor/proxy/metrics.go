package proxy

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// clientClosed is the code, in metrics alone, of a request whose client left
// before it was answered.
const clientClosed = 499

// The labels are existing objects and Services, and few codes, which bounds the number
// of series. The series of a deleted object are dropped with the next scrape.
var (
	routeLabels   = []string{"namespace", "httpso"}
	backendLabels = []string{"namespace", "httpso", "service"}
)

// durations are buckets in seconds.
var durations = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

type metrics struct {
	requests *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	duration *prometheus.HistogramVec
	// header is not by Service: the series would take 2 KB for each.
	header     prometheus.Histogram
	tries      *prometheus.CounterVec
	limited    *prometheus.CounterVec
	cutShort   *prometheus.CounterVec
	held       *prometheus.GaugeVec
	coldStarts *prometheus.CounterVec
	// fallbackRefused counts connections to the fallback listener.
	fallbackRefused prometheus.Counter
	// panics counts requests that ended in a panic.
	panics prometheus.Counter
	// accessLogDropped counts lines of the access log.
	accessLogDropped prometheus.Counter
	// connections are open now; connectionsRefused were closed because of
	// --max-connections or for lack of memory. Both are by port.
	connections        *prometheus.GaugeVec
	connectionsRefused *prometheus.CounterVec
	unrouted           *backendMetrics // requests that belong to no object
}

func newMetrics() *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_requests_total",
			Help: "Requests answered, by HTTPScaledObject, Service and code. Code 499: the client left before. Without an object: requests that no object matches.",
		}, append(backendLabels[:3:3], "code")),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "interceptor_requests_in_flight",
			Help: "Requests and upgraded connections at a Service now.",
		}, backendLabels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "interceptor_request_duration_seconds",
			Help:    "Time from the request to the end of its answer, the wait of a cold start included. Upgraded connections are not counted.",
			Buckets: durations,
		}, backendLabels),
		header: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "interceptor_time_to_header_seconds",
			Help:    "Time from the request to the header of the application's answer, of all Services. The wait of a cold start, earlier tries and the upload of a body are included. Upgrades are counted.",
			Buckets: durations,
		}),
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_tries_total",
			Help: "Times a request was sent to an endpoint of a Service, by what became of it. answered: with any code. connect_failure: without a connection. unanswered: the endpoint closed the connection before an answer began. broken: before its header was complete. timeout: without an answer in time. abandoned: by the client.",
			// See [second tries](requests.md#second-tries).
		}, append(backendLabels[:3:3], "outcome")),
		cutShort: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_answers_cut_short_total",
			Help: "Answers that began and did not come to their end, by who ended them. application: it closed the connection. client: it left, or took nothing for --send-timeout. shutdown: the interceptor's --shutdown-timeout was over. interceptor_requests_total has these answers by the code that they began with.",
		}, append(backendLabels[:3:3], "by")),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_requests_limited_total",
			Help: "Requests answered 503, because their Service had as many under way as --max-upstream-requests allows.",
		}, backendLabels),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "interceptor_requests_held",
			Help: "Requests that wait for an endpoint now.",
		}, routeLabels),
		coldStarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_cold_starts_total",
			Help: "Requests that found no endpoint, by what became of them: served, failover, timeout, overflow, abandoned or unrouted. overflow: there was no room to wait, or the request was turned away for another.",
		}, append(routeLabels[:2:2], "outcome")),
		fallbackRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "interceptor_fallback_connections_refused_total",
			Help: "Connections to port 8081 that are not a kedify-proxy's, or are for an object for which this kedify-proxy may not send requests.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "interceptor_panics_total",
			Help: "Requests that ended by an error of the interceptor itself. They are answered 500, and its log has the stack.",
		}),
		accessLogDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "interceptor_access_log_lines_dropped_total",
			Help: "Lines of the access log that nobody read in time, or that could not be written.",
			// See [the access log](../how-to/observe.md#log-requests).
		}),
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "interceptor_connections",
			Help: "Connections open now. proxy: of clients at the ports for requests. fallback: of kedify-proxies at the fallback port. admin, metrics and xds: at these ports.",
		}, []string{"port"}),
		connectionsRefused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_connections_refused_total",
			Help: "Connections closed, because as many were open as --max-connections, --admin-max-connections or --xds-max-connections allow, or because more than GOMEMLIMIT was in use.",
		}, []string{"port"}),
	}
	m.unrouted = m.route(types.NamespacedName{}).backend("")
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.requests, m.inFlight, m.duration, m.header, m.tries, m.limited, m.cutShort, m.held, m.coldStarts,
		m.fallbackRefused, m.panics, m.accessLogDropped, m.connections, m.connectionsRefused,
	}
}

// routeMetrics are the series of one HTTPScaledObject.
type routeMetrics struct {
	all  *metrics
	name types.NamespacedName
	held prometheus.Gauge

	mu       sync.Mutex
	backends map[string]*backendMetrics
}

func (m *metrics) route(name types.NamespacedName) *routeMetrics {
	return &routeMetrics{
		all: m, name: name,
		held:     m.held.WithLabelValues(name.Namespace, name.Name),
		backends: make(map[string]*backendMetrics),
	}
}

// coldStart counts a request that found no endpoint.
func (r *routeMetrics) coldStart(o outcome) {
	r.all.coldStarts.WithLabelValues(r.name.Namespace, r.name.Name, string(o)).Inc()
}

// backendMetrics are the series of one Service of an HTTPScaledObject.
type backendMetrics struct {
	requests lazyCounters // by code
	tries    lazyCounters // by outcome
	cutShort lazyCounters // by who ended the answer
	limited  lazyCounters // by the Service, which makes one
	inFlight prometheus.Gauge
	duration prometheus.Observer
	underWay atomic.Int64 // requests that count for limit
}

func (r *routeMetrics) backend(service string) *backendMetrics {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.backends[service]
	if b == nil {
		labels := []string{r.name.Namespace, r.name.Name, service}
		b = &backendMetrics{
			requests: lazyCounters{all: r.all.requests, labels: labels, usual: codeOK},
			tries:    lazyCounters{all: r.all.tries, labels: labels, usual: string(tryAnswered)},
			cutShort: lazyCounters{all: r.all.cutShort, labels: labels},
			limited:  lazyCounters{all: r.all.limited, labels: labels[:2]},
			inFlight: r.all.inFlight.WithLabelValues(labels...),
			duration: r.all.duration.WithLabelValues(labels...),
		}
		r.backends[service] = b
	}
	return b
}

// answered counts a request by the code of its answer.
func (b *backendMetrics) answered(code int) { b.requests.inc(codeLabel(code)) }

// codeOK is the label of most answers.
const codeOK = "200"

// codeLabel returns the label of a code. Codes that an application makes up share one,
// such as 5xx, so that each does not become a series.
func codeLabel(code int) string {
	if code == http.StatusOK {
		return codeOK // without an allocation
	}
	if code == clientClosed || http.StatusText(code) != "" {
		return strconv.Itoa(code)
	}
	return strconv.Itoa(code/100) + "xx"
}

// keep drops the series of the services for which has returns false.
func (r *routeMetrics) keep(has func(service string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for service, b := range r.backends {
		if has(service) {
			continue
		}
		delete(r.backends, service)
		b.requests.drop()
		b.tries.drop()
		b.cutShort.drop()
		b.limited.drop()
		r.all.inFlight.DeleteLabelValues(r.name.Namespace, r.name.Name, service)
		r.all.duration.DeleteLabelValues(r.name.Namespace, r.name.Name, service)
	}
}

// forget drops the series of the whole object.
func (r *routeMetrics) forget() {
	r.keep(func(string) bool { return false })
	r.all.held.DeleteLabelValues(r.name.Namespace, r.name.Name)
	for _, o := range outcomes {
		r.all.coldStarts.DeleteLabelValues(r.name.Namespace, r.name.Name, string(o))
	}
}
