package figures

import (
	"slices"
	"time"
)

const (
	// reconnect is how long an Envoy takes to open a load reporting stream in the place of
	// one that broke: it tries every 5 s. What it counted before the last try that failed
	// is lost.
	reconnect = 6 * time.Second
	// longestInterval bounds what is taken for the time between two reports of a proxy.
	longestInterval = 30 * time.Second
)

// A proxyKey names a proxy: an interceptor by address, a kedify-proxy by its pod.
type proxyKey struct {
	interceptor bool
	address     string
}

// A proxy counts requests, and reports them by one Source after another. All times are
// since the start of the scaler.
type proxy struct {
	proxyKey
	// expected is whether the proxy is in its EndpointSlices.
	expected bool
	// heard is whether it has reported since it came into the EndpointSlices; initial, that
	// it was there before the scaler was, and has not reported yet.
	heard, initial bool
	// from is since when all requests of the proxy are known, but for those in gaps; the
	// last of them are as of last.
	from, last time.Duration
	gaps       []gap
	// interval is the time between the last two reports.
	interval time.Duration
	sources  []*source

	// connected and greeted are those of an interceptor: whether its stream is open, and
	// whether it has sent a message since it came into the EndpointSlices.
	connected, greeted bool
}

// A gap is a time in which a proxy has counted requests that no report has.
type gap struct{ from, to time.Duration }

// lose notes that the requests between last and from are in no report.
func (p *proxy) lose(from time.Duration) {
	if from > p.last {
		p.gaps = append(slices.DeleteFunc(p.gaps, func(g gap) bool { return g.to < from-LongestWindow }), gap{p.last, from})
		p.last = from
	}
}

// reported takes all requests until now as known, by a source or, if it is nil, by the
// interceptor's message alone.
func (p *proxy) reported(by *source, now time.Duration) {
	p.heard, p.initial = true, false
	if now > p.last {
		p.interval = min(now-p.last, longestInterval)
		p.last = now
	}
	// What a source said last counts until the proxy reports by another.
	for _, s := range slices.Clone(p.sources) {
		switch {
		case s == by:
		case s.ended:
			s.remove()
		case !s.via.connected:
			s.replaced = true
		}
	}
}

// end is where windows of the proxy end: at its last report as long as it is expected. One
// that has left has had no requests since.
func (p *proxy) end(now time.Duration) time.Duration {
	if p.expected {
		return p.last
	}
	return now
}

// covered is how much of the time between from and to the requests are known of.
func (p *proxy) covered(from, to time.Duration) time.Duration {
	from = max(from, p.from)
	covered := max(0, to-from)
	for _, g := range p.gaps {
		covered -= max(0, min(g.to, to)-max(g.from, from))
	}
	return covered
}

// live tells whether the proxy has a Source that may report any time.
func (p *proxy) live() bool {
	return p.connected || slices.ContainsFunc(p.sources, (*source).live)
}

// withoutLoadReports tells whether an interceptor says that the proxy opened no load
// reporting stream.
func (p *proxy) withoutLoadReports() bool {
	return slices.ContainsFunc(p.sources, func(s *source) bool { return s.without && s.told() })
}
