package figures

import (
	"fmt"
	"slices"
	"time"
)

// patience is how long a proxy may be silent if the window is shorter: Envoy takes 5 s to
// open a stream in the place of one that broke, and may report more seldom than each second.
const patience = 15 * time.Second

// leastCovered is how long a proxy has to have reported for its share to be known.
const leastCovered = time.Second

// Rate returns the requests per second over a valid window. It is an error if a proxy that
// has a share in it is unknown or has been silent for the window.
func (f *Figures) Rate(key Key, w Window) (float64, error) {
	now := f.lock()
	defer f.mu.Unlock()
	if err := f.missing(key.Namespace, w.Length, now); err != nil {
		return 0, err
	}
	o := f.objects[key]
	if o == nil {
		return 0, nil
	}
	o.serve(w, now)
	rate := 0.0
	for _, r := range o.rings {
		end := r.proxy.end(now)
		from := max(end-w.Length, o.from)
		if covered := r.proxy.covered(from, end); covered > 0 {
			rate += r.sum(from, o.from) / covered.Seconds()
		}
	}
	return rate, nil
}

// Concurrency returns the requests that are under way or held now. It is an error if a
// proxy that has a share in it is unknown or has been silent for DefaultWindow.
func (f *Figures) Concurrency(key Key) (int64, error) {
	now := f.lock()
	defer f.mu.Unlock()
	if err := f.missing(key.Namespace, DefaultWindow.Length, now); err != nil {
		return 0, err
	}
	active, _ := f.underWay(key)
	return active, nil
}

// underWay returns how many requests are under way, and how many of them are held.
func (f *Figures) underWay(key Key) (active, held int64) {
	if o := f.objects[key]; o != nil {
		return o.underWay()
	}
	return 0, 0
}

// Active tells whether a request is known to be held or under way, or to have come in a
// valid window. If it is false, Missing tells whether that is sure.
func (f *Figures) Active(key Key, w Window) bool {
	now := f.lock()
	defer f.mu.Unlock()
	o := f.objects[key]
	if o == nil {
		return false
	}
	if active, held := o.underWay(); active > 0 || held > 0 {
		return true
	}
	o.serve(w, now)
	return slices.ContainsFunc(o.rings, func(r *ring) bool {
		return r.sum(r.proxy.end(now)-w.Length, o.from) > 0
	})
}

// Held tells whether a request of the object is known to wait for an endpoint.
func (f *Figures) Held(key Key) bool {
	f.lock()
	defer f.mu.Unlock()
	_, held := f.underWay(key)
	return held > 0
}

// Subscribe returns a channel that tells when requests of the object begin to be held. It
// does not tell of those that are when it is called: ask Held after it. The cancel function
// has to be called at the end; the channel is never closed.
func (f *Figures) Subscribe(key Key) (held <-chan struct{}, cancel func()) {
	f.lock()
	defer f.mu.Unlock()
	o, s := f.object(key), make(chan struct{}, 1)
	o.subscribers = append(o.subscribers, s)
	return s, func() {
		f.lock()
		defer f.mu.Unlock()
		o.subscribers = slices.DeleteFunc(o.subscribers, func(other chan struct{}) bool { return other == s })
	}
}

// Missing returns an error if the figures of the objects of a namespace are not known,
// because a proxy is unknown or has been silent for the length of a window. It names the
// proxy and says what to do.
func (f *Figures) Missing(namespace string, window time.Duration) error {
	now := f.lock()
	defer f.mu.Unlock()
	return f.missing(namespace, window, now)
}

func (f *Figures) missing(namespace string, window, now time.Duration) error {
	if !f.synced {
		return fmt.Errorf("the scaler has not read the EndpointSlices of interceptors yet: try again")
	}
	if len(f.interceptors) == 0 {
		return fmt.Errorf("no interceptor is ready: see the Deployment of interceptors and the EndpointSlices of its Service")
	}
	for _, p := range f.interceptors {
		if err := p.missing(window, now); err != nil {
			return fmt.Errorf("interceptor %s %w; see its log, and whether NetworkPolicies let scalers reach it", p.address, err)
		}
	}
	for _, p := range f.kedifyProxies[namespace] {
		err := p.missing(window, now)
		if err != nil && p.withoutLoadReports() {
			return fmt.Errorf("kedify-proxy %s in namespace %s does not report its requests: its bootstrap lacks load_stats_config; take that of this release and restart it", p.address, namespace)
		}
		if err != nil {
			return fmt.Errorf("kedify-proxy %s in namespace %s %w; see its log, and whether it reaches an interceptor", p.address, namespace, err)
		}
	}
	return nil
}

// missing returns an error if what the proxy counted in a window is not known.
func (p *proxy) missing(window, now time.Duration) error {
	silent := now - p.last
	switch {
	case silent > max(window, patience):
		return fmt.Errorf("has not reported for %v", silent.Round(time.Second))
	case !p.heard && p.initial:
		return fmt.Errorf("has not reported since this scaler started, %v ago", (now - p.from).Round(time.Second))
	case p.heard && p.covered(p.last-window, p.last) < min(window, leastCovered):
		return fmt.Errorf("has only just begun to report: try again")
	}
	return nil
}
