// Package usage has the metrics that tell how near the interceptor is to its limits.
package usage

import "github.com/prometheus/client_golang/prometheus"

var (
	usedDesc = prometheus.NewDesc("interceptor_limit_used",
		"How much of a limit is in use now. The label is the limit's flag, or GOMEMLIMIT. Of a limit for each port, address, namespace or object, it is the value nearest to the limit.", []string{"limit"}, nil)
	maxDesc = prometheus.NewDesc("interceptor_limit_max",
		"The limit, in the same unit. A limit that is switched off has neither metric.", []string{"limit"}, nil)
)

// Limit is how much of a limit is in use.
type Limit struct {
	// Name is the flag without its dashes, or an environment variable.
	Name string
	// Used and Max have the same unit. Of several Limits with the same name, the one
	// that is nearest to Max is reported. One whose Max is 0 is left out.
	Used, Max float64
}

// Collector is a prometheus.Collector of what these functions return.
type Collector []func() []Limit

// Describe is part of prometheus.Collector.
func (Collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- usedDesc
	descs <- maxDesc
}

// Collect is part of prometheus.Collector.
func (c Collector) Collect(collected chan<- prometheus.Metric) {
	nearest := make(map[string]Limit)
	for _, limits := range c {
		for _, l := range limits() {
			if n, is := nearest[l.Name]; l.Max > 0 && (!is || l.Used/l.Max > n.Used/n.Max) {
				nearest[l.Name] = l
			}
		}
	}
	for name, l := range nearest {
		collected <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, l.Used, name)
		collected <- prometheus.MustNewConstMetric(maxDesc, prometheus.GaugeValue, l.Max, name)
	}
}
