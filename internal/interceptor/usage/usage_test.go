package usage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestNearestToEachLimit(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Collector{
		func() []Limit { return []Limit{{"max-a", 1, 10}, {"max-a", 7, 100}, {"off", 5, 0}} },
		func() []Limit { return []Limit{{"max-a", 0, 10}, {"max-b", 0, 3}} },
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			got[family.GetName()+" "+metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"interceptor_limit_used max-a": 1, "interceptor_limit_max max-a": 10,
		"interceptor_limit_used max-b": 0, "interceptor_limit_max max-b": 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
