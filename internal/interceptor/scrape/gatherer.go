// Package scrape bounds the memory of scrapes. With 10,000 objects the metrics of one
// scrape take 56 MB until its client has read them, and every pod can scrape.
package scrape

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	// maxGathered bounds the results in memory.
	maxGathered = 2
	// fresh is how long a result that is still being read serves other scrapes, too.
	fresh = time.Second
)

// Gatherer is a prometheus.TransactionalGatherer that shares its results among scrapes at
// the same time, and has two of them in memory at most. While clients are slow to read
// both, others get the newer one.
type Gatherer struct {
	from  prometheus.Gatherer
	fresh time.Duration

	mu      sync.Mutex
	latest  *gathered // nil unless a scrape reads it
	results int       // that scrapes read
}

// gathered is a result.
type gathered struct {
	families []*dto.MetricFamily
	err      error
	at       time.Time
	readers  int
}

// NewGatherer returns a Gatherer of the metrics of another.
func NewGatherer(from prometheus.Gatherer) *Gatherer { return &Gatherer{from: from, fresh: fresh} }

// Gather is part of prometheus.TransactionalGatherer.
func (g *Gatherer) Gather() (families []*dto.MetricFamily, done func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.latest == nil || g.results < maxGathered && time.Since(g.latest.at) >= g.fresh {
		families, err := g.from.Gather()
		g.latest = &gathered{families: families, err: err, at: time.Now()}
		g.results++
	}
	result := g.latest
	result.readers++
	return result.families, sync.OnceFunc(func() { g.done(result) }), result.err
}

func (g *Gatherer) done(result *gathered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if result.readers--; result.readers > 0 {
		return
	}
	g.results--
	if g.latest == result {
		g.latest = nil
	}
}
