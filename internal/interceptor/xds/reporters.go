package xds

import (
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
)

// reportTime is how long an Envoy with a configuration from here has to begin its load
// reports. One whose stream ended begins another after 5 s.
const reportTime = 10 * time.Second

// reporters are the Envoys with streams to here, of either kind. The ledger is told of those
// that take their configuration from here for reportTime and do not report.
type reporters struct {
	ledger   *loads.Ledger
	patience time.Duration // reportTime

	mu    sync.Mutex
	known map[proxyName]*reporter
}

// proxyName names an Envoy: its IP address, and the pod that it says it is.
type proxyName struct{ address, pod string }

type reporter struct {
	configured, reporting int           // streams
	timer                 *time.Timer   // nil unless it waits for a report
	without               *loads.Source // nil unless the ledger is told
}

// configures counts a stream of an Envoy that takes its configuration from here, until the
// function returned is called.
func (r *reporters) configures(name proxyName) (end func()) {
	return r.count(name, func(is *reporter) *int { return &is.configured })
}

// reports does the same for a stream of load reports.
func (r *reporters) reports(name proxyName) (end func()) {
	return r.count(name, func(is *reporter) *int { return &is.reporting })
}

func (r *reporters) count(name proxyName, streams func(*reporter) *int) (end func()) {
	r.change(name, func(is *reporter) { *streams(is)++ })
	return func() { r.change(name, func(is *reporter) { *streams(is)-- }) }
}

func (r *reporters) change(name proxyName, change func(*reporter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := r.known[name]
	if is == nil {
		is = &reporter{}
		r.known[name] = is
	}
	change(is)
	if is.configured > 0 && is.reporting == 0 {
		if is.timer == nil {
			is.timer = time.AfterFunc(r.patience, func() { r.late(name, is) })
		}
		return
	}
	if is.timer != nil {
		is.timer.Stop()
		is.timer = nil
	}
	if is.without != nil {
		is.without.End()
		is.without = nil
	}
	if is.configured+is.reporting == 0 {
		delete(r.known, name)
	}
}

// late tells the ledger of an Envoy that the timer of is has waited for.
func (r *reporters) late(name proxyName, is *reporter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[name] == is && is.timer != nil && is.without == nil {
		is.without = r.ledger.WithoutLoadReports(name.address, name.pod)
	}
}
