package proxy

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// outcome is what became of a request that found no endpoint.
type outcome string

const (
	servedCold   outcome = "served"
	failedOver   outcome = "failover"
	waitedInVain outcome = "timeout"
	noRoomToWait outcome = "overflow"
	abandoned    outcome = "abandoned" // by its client
	unrouted     outcome = "unrouted"  // its object is gone

	// moved is a request that now belongs to another object without endpoints: the
	// wait goes on there, and nothing is counted.
	moved outcome = "moved"
)

var outcomes = []outcome{servedCold, failedOver, waitedInVain, noRoomToWait, abandoned, unrouted}

// waits returns how long a request of a route waits for an endpoint, and how much
// longer if the failover has no endpoint either by then.
func (p *Proxy) waits(route *routes.Route) (wait, longer time.Duration) {
	wait = p.settings.ConditionWait
	if route.ConditionWait != nil {
		wait = *route.ConditionWait
	}
	if f := route.Failover; f != nil {
		return f.After, max(0, wait-f.After)
	}
	return wait, 0
}

func canFailOver(route *routes.Route) bool {
	return route.Failover != nil && len(route.Failover.Active()) > 0
}

// hold blocks until the route of the request has an endpoint, or there is a reason
// not to wait any longer.
func (x *exchange) hold(route *routes.Route, m *routeMetrics) outcome {
	p, name := x.proxy, route.Name
	wait, longer := p.waits(route)
	if wait <= 0 && (longer <= 0 || canFailOver(route)) {
		return waitedInVain
	}
	bytes, part := heldBytes(x.in, x.in.TLS != nil || x.overTLS)
	at := p.waiting.enter(name, bytes, connWindowOf(x.in.Context()), part)
	if at == nil {
		return noRoomToWait
	}
	defer p.waiting.leave(at)
	defer x.readAhead(at)()
	m.held.Inc()
	defer m.held.Dec()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		changed := p.waiting.changed(at)
		now := x.lookup()
		switch {
		case now == nil:
			return unrouted
		case !now.Cold():
			return servedCold
		case now.Name != name:
			return moved
		case at.late && canFailOver(now):
			return waitedInVain
		}
		select {
		case <-changed:
		case <-timer.C:
			now := x.lookup()
			switch {
			case now != nil && !now.Cold():
				return servedCold // by another object that now matches the request
			case at.late || longer <= 0 || now == nil || canFailOver(now):
				return waitedInVain
			}
			p.waiting.stay(at)
			timer.Reset(longer)
		case <-at.away:
			return noRoomToWait
		case <-p.waiting.closed:
			return waitedInVain
		case <-x.in.Context().Done():
			return abandoned
		}
	}
}
