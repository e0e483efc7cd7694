package scrape

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Clients that do not read their scrape keep two results in memory, however many they
// are, and another client is answered.
func TestSlowScrapesShareTheirMemory(t *testing.T) {
	times := 0
	g := NewGatherer(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		times++
		return []*dto.MetricFamily{{}}, nil
	}))
	g.fresh = 0
	var ends []func()
	for range 100 {
		families, done, err := g.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("%v, %v", families, err)
		}
		ends = append(ends, done)
	}
	if times != maxGathered {
		t.Errorf("100 scrapes at the same time gathered %d times, want %d", times, maxGathered)
	}
	// The first result is free as soon as its one client has read it.
	ends[0]()
	ends[0]()
	_, done, err := g.Gather()
	if err != nil || times != maxGathered+1 {
		t.Errorf("%v; gathered %d times, want %d", err, times, maxGathered+1)
	}
	for _, end := range append(ends, done) {
		end()
	}
	if g.results != 0 || g.latest != nil {
		t.Errorf("%d results stay in memory", g.results)
	}
}

// Scrapes one after the other are each gathered anew.
func TestEachScrapeIsCurrent(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "a"})
	registry.MustRegister(gauge)
	g := NewGatherer(registry)
	for i := range 3 {
		gauge.Set(float64(i))
		families, done, err := g.Gather()
		if err != nil || families[0].GetMetric()[0].GetGauge().GetValue() != float64(i) {
			t.Errorf("%v, %v; want %d", families, err, i)
		}
		done()
	}
}
