package figures

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// patience is how long a proxy may be silent if the window is shorter: Envoy takes 5 s to
// open a stream in the place of one that broke, and may report more seldom than each second.
const patience = 15 * time.Second

// leastCovered is how long a proxy has to have reported for its share to be known.
const leastCovered = time.Second

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
		return errors.New("the scaler has not read the EndpointSlices of interceptors yet: try again")
	}
	if len(f.interceptors) == 0 {
		return errors.New("no interceptor is ready: see the Deployment of interceptors and the EndpointSlices of its Service")
	}
	if p, err := missingOf(f.interceptors, window, now); err != nil {
		return fmt.Errorf("interceptor %s %w; see its log, and whether NetworkPolicies let scalers reach it", p.address, err)
	}
	p, err := missingOf(f.kedifyProxies[namespace], window, now)
	if err != nil && !p.heard && p.withoutLoadReports() {
		return fmt.Errorf("kedify-proxy %s does not report its requests: its bootstrap lacks load_stats_config; take that of this release and restart it", p.address)
	}
	if err != nil {
		return fmt.Errorf("kedify-proxy %s %w; see its log, whether it reaches an interceptor, and whether its node metadata name this pod", p.address, err)
	}
	return nil
}

// missingOf returns one of the proxies of a Service of which the requests in a window are
// not known, and why.
func missingOf(proxies []*proxy, window, now time.Duration) (*proxy, error) {
	others := slices.ContainsFunc(proxies, func(p *proxy) bool { return p.heard })
	for _, p := range proxies {
		if err := p.missing(others, window, now); err != nil {
			return p, err
		}
	}
	return nil, nil
}

// missing returns an error if what the proxy counted in a window is not known. others is
// whether one of its Service is heard: beside it, a new one has some time to report. If
// none is, they may well have all the requests of those that they replace.
func (p *proxy) missing(others bool, window, now time.Duration) error {
	silent := now - p.last
	switch {
	case p.initial:
		return fmt.Errorf("has not reported since this scaler started, %v ago", (now - p.from).Round(time.Second))
	case !p.heard && (!others || silent > patience):
		return fmt.Errorf("has not reported since it became ready, %v ago", silent.Round(time.Second))
	case silent > max(window, patience):
		return fmt.Errorf("has not reported for %v", silent.Round(time.Second))
	case p.heard && p.covered(p.last-window, p.last) < min(window, leastCovered):
		return errors.New("has only just begun to report: try again")
	}
	return nil
}

// share returns an error if the proxy, which has a share in a figure, has been silent for a
// window: the share would else stay as it was. The proxy may be of another namespace than
// the object, so that missing does not ask for it.
func (p *proxy) share(window, now time.Duration) error {
	if silent := now - p.last; p.expected && silent > max(window, patience) {
		return fmt.Errorf("kedify-proxy %s, which has had requests of the HTTPScaledObject, has not reported for %v; see its log, and whether it reaches an interceptor", p.address, silent.Round(time.Second))
	}
	return nil
}
