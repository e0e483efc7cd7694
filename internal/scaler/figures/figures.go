// Package figures has what interceptors report: the rate of requests of each
// HTTPScaledObject, and its requests under way. It knows what is missing, too, and says so
// in place of a figure that is too low.
package figures

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// Key names an HTTPScaledObject.
type Key = types.NamespacedName

// Figures has all that interceptors have reported. All methods are safe for any number of
// goroutines. The cost of reading an object does not depend on how many others there are.
type Figures struct {
	now     func() time.Time
	started time.Time

	mu      sync.Mutex
	objects map[Key]*object
	proxies map[proxyKey]*proxy
	sources map[string]*source
	// What is expected of each object is all interceptors, and the kedify-proxies of its
	// namespace.
	interceptors  []*proxy
	kedifyProxies map[string][]*proxy
	synced        bool
	swept         time.Duration
}

// New returns Figures of a scaler that starts now. They know nothing until SetExpected.
func New(now func() time.Time) *Figures {
	return &Figures{
		now: now, started: now(),
		objects: make(map[Key]*object), proxies: make(map[proxyKey]*proxy), sources: make(map[string]*source),
	}
}

// lock locks f, and returns the time since the start.
func (f *Figures) lock() time.Duration {
	f.mu.Lock()
	return max(0, f.now().Sub(f.started))
}

// SetExpected sets what is in the EndpointSlices: the interceptors, by the addresses that
// Apply is called with, and the kedify-proxies of each namespace, by pod as namespace/name,
// or by IP address where a Source has no pod. The first call has to have all that are there
// when the scaler starts, before the first Apply. A proxy that comes later counts as without
// requests before, and has to report from then on.
func (f *Figures) SetExpected(interceptors []string, kedifyProxies map[string][]string) {
	now := f.lock()
	defer f.mu.Unlock()
	left := make(map[*proxy]bool)
	for _, p := range f.proxies {
		left[p], p.expected = p.expected, false
	}
	f.interceptors = f.expect(true, interceptors, f.interceptors, now)
	before := f.kedifyProxies
	f.kedifyProxies = make(map[string][]*proxy, len(kedifyProxies))
	for namespace, addresses := range kedifyProxies {
		f.kedifyProxies[namespace] = f.expect(false, addresses, before[namespace], now)
	}
	f.synced = true
	for _, p := range f.proxies {
		if !p.expected && left[p] {
			f.left(p)
		}
		if !p.expected && !p.heard && !p.live() && len(p.sources) == 0 {
			delete(f.proxies, p.proxyKey)
		}
	}
}

// expect returns the proxies at addresses. before are those of the same Service until now.
// While a proxy is out of the EndpointSlices, the others have its requests. If there are no
// others, the Service may have been deleted and made again: it may have had requests.
func (f *Figures) expect(interceptors bool, addresses []string, before []*proxy, now time.Duration) []*proxy {
	expected := make([]*proxy, 0, len(addresses))
	for _, address := range addresses {
		p := f.proxy(proxyKey{interceptors, address}, now)
		if !slices.Contains(before, p) && !p.live() {
			if p.heard && len(before) == 0 {
				p.lose(now)
			}
			p.last, p.heard = now, false
		}
		p.expected = true
		expected = append(expected, p)
	}
	return expected
}

// proxy returns the proxy, a new one if it is not known.
func (f *Figures) proxy(key proxyKey, now time.Duration) *proxy {
	p := f.proxies[key]
	if p == nil {
		p = &proxy{proxyKey: key, initial: !f.synced, last: now}
		if p.initial {
			p.from = now
		}
		f.proxies[key] = p
	}
	return p
}

// left forgets what was under way at a proxy that is not expected, by sources that ended, and
// what an interceptor told of that is not connected either.
func (f *Figures) left(p *proxy) {
	for _, s := range slices.Clone(p.sources) {
		if s.ended {
			s.remove()
		}
	}
	if p.connected {
		return
	}
	p.greeted = false
	for _, s := range f.sources {
		if s.via == p {
			f.end(s)
		}
	}
}

// end says that a source does not come again.
func (f *Figures) end(s *source) {
	delete(f.sources, s.id)
	s.ended = true
	if s.without || !s.counts() {
		s.remove()
	}
}

// Disconnected says that the stream of an interceptor ended. The next message from it is
// the first one of another stream.
func (f *Figures) Disconnected(interceptor string) {
	f.lock()
	defer f.mu.Unlock()
	p := f.proxies[proxyKey{true, interceptor}]
	if p == nil {
		return
	}
	p.connected = false
	if !p.expected {
		f.left(p)
	}
	for _, s := range f.sources {
		// Its proxy may have moved to another interceptor already.
		if s.via == p && slices.ContainsFunc(s.proxy.sources, (*source).live) {
			s.replaced = true
		}
	}
}

// Apply takes in a message of an interceptor. The first message of a stream has all that
// the interceptor knows; the first one from an interceptor only tells where its counts
// are now.
func (f *Figures) Apply(interceptor string, m loadreport.Message) {
	now := f.lock()
	defer f.mu.Unlock()
	in := f.proxy(proxyKey{true, interceptor}, now)
	r := report{Figures: f, in: in, now: now, first: !in.connected, base: !in.greeted}
	r.apply(m)
	if now-f.swept > time.Minute {
		f.swept = now
		f.sweep(now)
	}
}
