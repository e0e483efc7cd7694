package proxy

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
)

// OverRequestLimit says on an HTTPScaledObject that a Service, which the Event names, has as many
// requests under way as `--max-upstream-requests` allows. The embedded proxy answers further
// requests 503. The problem ends a minute after the last 503.
const OverRequestLimit routes.Reason = "OverRequestLimit"

const (
	// limitedInterval is how often refusals are reported.
	limitedInterval = time.Second
	// limitedFor is how long a Problem stays open after the last refusal.
	limitedFor = time.Minute
)

// limit refuses a request whose Service has as many under way as there may be. A request
// counts for the Service that was chosen for it until it is over: also while it is tried
// at another Service, and until its tunnel is closed. A second try of Envoy counts, but
// is not refused.
func (p *Proxy) limit(next http.Handler) http.Handler {
	most := int64(p.settings.MaxUpstreamRequests)
	if most == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		m := rec.backend.metrics
		defer m.underWay.Add(-1)
		if m.underWay.Add(1) > most && !rec.secondTry {
			rec.limited = true
			m.limited.inc(rec.backend.service)
			p.limited.add(rec.served.route, rec.backend.service)
			p.refuseForNow(w, r, "Service %s of HTTPScaledObject %s has as many requests under way as it may: %d", rec.backend.service, rec.served.route.Name, most)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limitUsed tells how near the fullest Service is to its limit.
func (p *Proxy) limitUsed() usage.Limit {
	r := &p.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	most := int64(0)
	for _, s := range r.byName {
		most = max(most, s.metrics.mostUnderWay())
	}
	return usage.Limit{Name: "max-upstream-requests", Used: float64(most), Max: float64(p.settings.MaxUpstreamRequests)}
}

// mostUnderWay returns how many requests the Service of an object with most of them has.
func (r *routeMetrics) mostUnderWay() (most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.backends {
		most = max(most, b.underWay.Load())
	}
	return most
}

// WatchLimited reports which Services requests are refused for by the limit of their
// number, until ctx ends: as a Problem that opens with the first refusal, and is resolved
// a minute after the last one.
func (p *Proxy) WatchLimited(ctx context.Context, report func(opened, resolved []routes.Problem)) {
	interval := time.NewTicker(limitedInterval)
	defer interval.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-interval.C:
			if opened, resolved := p.limited.changes(now, p.settings.MaxUpstreamRequests); len(opened)+len(resolved) > 0 {
				report(opened, resolved)
			}
		}
	}
}

// limitedServices are the Services that requests were refused for. The zero value has none.
type limitedServices struct {
	mu     sync.Mutex
	recent map[limitedService]struct{}  // since the last call of changes
	open   map[routes.Problem]time.Time // when it was seen last
}

type limitedService struct {
	route   *routes.Route
	service string
}

// add adds the Service of a route.
func (l *limitedServices) add(route *routes.Route, service string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recent == nil {
		l.recent = make(map[limitedService]struct{})
	}
	l.recent[limitedService{route, service}] = struct{}{}
}

// changes returns the Problems that have opened and that are resolved since the last call.
func (l *limitedServices) changes(now time.Time, most int) (opened, resolved []routes.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[routes.Problem]time.Time)
	}
	for s := range l.recent {
		problem := routes.Problem{
			Object: s.route.Name, UID: s.route.UID, Reason: OverRequestLimit,
			Message: fmt.Sprintf("Service %s has had %d requests under way in an interceptor, as many as --max-upstream-requests allows; further ones are answered 503. Look for requests that hang, add replicas of the application, or raise the limit", s.service, most),
		}
		if _, is := l.open[problem]; !is {
			opened = append(opened, problem)
		}
		l.open[problem] = now
	}
	clear(l.recent)
	for problem, last := range l.open {
		if now.Sub(last) >= limitedFor {
			delete(l.open, problem)
			resolved = append(resolved, problem)
		}
	}
	return opened, resolved
}
