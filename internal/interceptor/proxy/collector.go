package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

var (
	generationDesc = prometheus.NewDesc("interceptor_table_generation", "Number of the routing table that is served.", nil, nil)
	routesDesc     = prometheus.NewDesc("interceptor_table_routes", "HTTPScaledObjects in the routing table.", nil, nil)
	problemsDesc   = prometheus.NewDesc("interceptor_table_problems",
		"What is wrong with HTTPScaledObjects now, by the reason of the Event that tells of it.", []string{"namespace", "httpso", "reason"}, nil)
)

// Describe is part of prometheus.Collector: a Proxy is registered as what it is.
func (p *Proxy) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range p.metrics.collectors() {
		c.Describe(descs)
	}
	descs <- generationDesc
	descs <- routesDesc
	descs <- problemsDesc
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
	type kind struct {
		object types.NamespacedName
		reason routes.Reason
	}
	count := make(map[kind]int)
	for _, problem := range table.Problems() {
		count[kind{problem.Object, problem.Reason}]++
	}
	for k, n := range count {
		collected <- prometheus.MustNewConstMetric(problemsDesc, prometheus.GaugeValue, float64(n), k.object.Namespace, k.object.Name, string(k.reason))
	}
}
