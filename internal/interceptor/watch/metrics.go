package watch

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	up         *prometheus.GaugeVec
	unreadable prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "interceptor_watch_up",
			Help: "1 while the API server answers the watch of a resource. With 0 the interceptor serves the last state that it knows.",
		}, []string{"resource"}),
		unreadable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "interceptor_unreadable_objects",
			Help: "HTTPScaledObjects that cannot be decoded now. They are served as they were before.",
		}),
	}
}

func (m *metrics) describe(descs chan<- *prometheus.Desc) {
	m.up.Describe(descs)
	m.unreadable.Describe(descs)
}

func (m *metrics) collect(collected chan<- prometheus.Metric) {
	m.up.Collect(collected)
	m.unreadable.Collect(collected)
}
