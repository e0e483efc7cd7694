package proxy

import "github.com/prometheus/client_golang/prometheus"

var (
	generationDesc = prometheus.NewDesc("interceptor_table_generation", "Number of the table that is served. Each interceptor counts for itself.", nil, nil)
	memoryDesc     = prometheus.NewDesc("interceptor_memory_short", "1 while some or all new requests are answered 503, because nine tenths of GOMEMLIMIT are in use.",
		// See [memory](settings.md#memory).
		nil, nil)
	routesDesc = prometheus.NewDesc("interceptor_table_routes", "HTTPScaledObjects in the table.", nil, nil)
)

// Describe is part of prometheus.Collector: the Proxy itself is registered as one.
func (p *Proxy) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range p.metrics.collectors() {
		c.Describe(descs)
	}
	descs <- generationDesc
	descs <- routesDesc
	descs <- memoryDesc
}

// Collect is part of prometheus.Collector.
func (p *Proxy) Collect(collected chan<- prometheus.Metric) {
	p.sweep()
	for _, c := range p.metrics.collectors() {
		c.Collect(collected)
	}
	table := p.table.Load()
	collected <- prometheus.MustNewConstMetric(generationDesc, prometheus.GaugeValue, float64(table.Generation()))
	collected <- prometheus.MustNewConstMetric(routesDesc, prometheus.GaugeValue, float64(table.Len()))
	short := 0.0
	if p.memory.short.Load() {
		short = 1
	}
	collected <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, short)
}
