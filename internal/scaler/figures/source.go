package figures

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// A source is what a proxy counts by one stream, or an interceptor by one process.
type source struct {
	id    string
	proxy *proxy
	via   *proxy // the interceptor that tells of it
	// ended is whether it does not come again; replaced, that its proxy reports by another
	// one while the interceptor that tells of this one is not connected.
	ended, replaced, without bool
	removed                  bool
	// unsettled is whether a kedify-proxy's counts are those of a report before the scaler
	// was told of it, so that it is not known since when its next report counts.
	unsettled bool
	parts     map[*object]*part
}

// A part is what a source said last of an object.
type part struct {
	source                 *source
	requests, active, held int64
}

// update takes in what the source says now, and returns how many requests came since. The
// number is negative when requests that had come were refused.
func (p *part) update(m loadreport.Object) int64 {
	n := bounded(m.Requests) - p.requests
	p.requests, p.active, p.held = bounded(m.Requests), bounded(m.Active), bounded(m.Held)
	return n
}

// bounded keeps sums of numbers from outside free of overflow.
func bounded(n int64) int64 { return min(max(n, 0), 1<<40) }

// told tells whether an interceptor tells of the source.
func (s *source) told() bool { return !s.ended && s.via.connected }

// live tells whether the source may report any time.
func (s *source) live() bool { return s.told() && !s.without }

// counts tells whether what the source said last of requests under way is to count. What a
// silent proxy said last does, as long as it is expected.
func (s *source) counts() bool {
	return !s.removed && !s.replaced && (s.told() || s.proxy.expected)
}

func (s *source) remove() {
	s.removed = true
	s.proxy.sources = slices.DeleteFunc(s.proxy.sources, func(other *source) bool { return other == s })
	s.parts = nil
}
