package xds

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	resourcesDesc = prometheus.NewDesc("interceptor_xds_resources",
		"Clusters and virtual hosts for a kedify-proxy of all namespaces.", []string{"type"}, nil)
	refusedDesc = prometheus.NewDesc("interceptor_xds_refused_objects",
		"HTTPScaledObjects that a connected kedify-proxy refuses now, also those without an Event.", nil, nil)
	unacknowledgedDesc = prometheus.NewDesc("interceptor_xds_unacknowledged_seconds",
		"Age of the oldest HTTPScaledObject that a connected kedify-proxy has not acknowledged as it is now, and 0 without one. It is waiting, sent or refused.",
		// See [the states](../how-to/observe.md#see-what-kedify-proxies-have).
		[]string{"state"}, nil)
)

type metrics struct {
	streams *prometheus.GaugeVec
	// unidentified counts streams that RequireNamespaces would turn away, or whose
	// Envoy the fallback listeners would refuse with it.
	unidentified prometheus.Gauge
	pushes       *prometheus.CounterVec
	nacks        *prometheus.CounterVec
	sentAway     prometheus.Counter
	latency      prometheus.Histogram
	rendered     prometheus.Counter
	loadStreams  prometheus.Gauge
	loadReports  prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "interceptor_xds_streams",
			Help: "Connected kedify-proxies, by what they ask for: delta, or sotw for the state of the world.",
		}, []string{"kind"}),
		unidentified: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "interceptor_xds_unidentified_streams",
			Help: "Connected kedify-proxies without a certificate that names namespaces, or that send requests to port 8081 without TLS.",
			// See [certificates](../how-to/tls.md#which-namespaces-a-kedify-proxy-is-for).
		}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_xds_pushes_total",
			Help: "Responses sent to kedify-proxies, by type of resource.",
		}, []string{"type"}),
		nacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "interceptor_xds_nacks_total",
			Help: "Responses that a kedify-proxy refused, by type of resource.",
		}, []string{"type"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "interceptor_xds_routes_acknowledged_seconds",
			Help:    "Time from a new table until a kedify-proxy acknowledges its routes.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
	m.sentAway = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "interceptor_xds_sent_away_total",
		Help: "Streams of kedify-proxies sent to another interceptor, because this one had lost the API server.",
	})
	m.rendered = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "interceptor_xds_virtual_hosts_rendered_total",
		Help: "Virtual hosts made for kedify-proxies, which share equal ones. A change of an object makes the virtual hosts of its own hosts again, for kedify-proxies that have its namespace.",
	})
	m.loadStreams = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "interceptor_load_streams",
		Help: "Kedify-proxies that report their requests to this interceptor.",
		// See [load reports](kedify-proxy.md#load-reports).
	})
	m.loadReports = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "interceptor_load_reports_total",
		Help: "Reports of requests by kedify-proxies.",
	})
	for _, kind := range []string{"delta", "sotw"} {
		m.streams.WithLabelValues(kind)
	}
	for _, name := range kindNames {
		m.pushes.WithLabelValues(name)
		m.nacks.WithLabelValues(name)
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.streams, m.unidentified, m.pushes, m.nacks, m.sentAway, m.latency, m.rendered, m.loadStreams, m.loadReports}
}

// Describe is part of prometheus.Collector: a Server is registered as a collector.
func (s *Server) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range s.metrics.collectors() {
		c.Describe(descs)
	}
	descs <- resourcesDesc
	descs <- refusedDesc
	descs <- unacknowledgedDesc
}

// Collect is part of prometheus.Collector.
func (s *Server) Collect(collected chan<- prometheus.Metric) {
	for _, c := range s.metrics.collectors() {
		c.Collect(collected)
	}
	s.mu.Lock()
	table := s.now.table
	s.mu.Unlock()
	clusters, hosts := 0, 0
	if table != nil {
		hosts = len(table.Domains())
		for route := range table.Routes() {
			clusters += len(route.Backends)
		}
	}
	for name, n := range map[string]int{"cluster": clusters, "virtual_host": hosts} {
		collected <- prometheus.MustNewConstMetric(resourcesDesc, prometheus.GaugeValue, float64(n), name)
	}
	collected <- prometheus.MustNewConstMetric(refusedDesc, prometheus.GaugeValue, float64(s.refusals.objects()))
	s.collectUnacknowledged(collected)
}

// collectUnacknowledged makes one series for each state, of all Envoys together: a series
// per Envoy would come and go with the Envoy.
func (s *Server) collectUnacknowledged(collected chan<- prometheus.Metric) {
	oldest := make(map[Acknowledgement]time.Time)
	for _, st := range s.connected() {
		st.mu.Lock()
		objects := st.unacknowledged()
		st.mu.Unlock()
		for _, is := range acknowledgements {
			oldest[is] = earlier(oldest[is], objects.oldest(is))
		}
	}
	for _, is := range acknowledgements {
		age := 0.0
		if at := oldest[is]; !at.IsZero() {
			age = time.Since(at).Seconds()
		}
		collected <- prometheus.MustNewConstMetric(unacknowledgedDesc, prometheus.GaugeValue, age, string(is))
	}
}
