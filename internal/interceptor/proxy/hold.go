package proxy

import (
	"net/http"
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

// hold lets a request wait whose route has no endpoint, until it has one. A request that
// waits in vain goes to the failover, is answered 503, or is abandoned with its client.
// A request that comes while the last pods end is sent to them. If they do not listen any
// more, it waits after that.
func (p *Proxy) hold(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		for sent := false; !sent; {
			if rec.cold(rec.served.route) && !rec.tooLate {
				tellEnvoyToWait(w, r)
				if !p.waitForEndpoint(w, r, rec) {
					return
				}
			}
			waits := rec.unready
			next.ServeHTTP(w, r)
			sent = waits || !rec.unready
		}
	})
}

// cold tells whether the request has to wait for an endpoint of a route.
func (rec *record) cold(route *routes.Route) bool {
	return route.Cold() || rec.unready && !route.HasReady()
}

// waitForEndpoint returns once the request can be sent on; false when it was answered.
func (p *Proxy) waitForEndpoint(w http.ResponseWriter, r *http.Request, rec *record) bool {
	for {
		s := rec.served
		rec.backend = &s.backends[0]
		what := p.wait(r, s)
		if what == abandoned {
			s.metrics.coldStart(what)
			abandon(r)
		}
		if rec.served = p.servedFor(r); what == unrouted || rec.served == nil {
			s.metrics.coldStart(unrouted)
			rec.served, rec.backend = nil, nil
			p.refuseUnmatched(w, r)
			return false
		}
		rec.moveLoad()
		if !rec.cold(rec.served.route) {
			s.metrics.coldStart(servedCold)
			return true
		}
		if what == servedCold || what == moved {
			continue // the endpoint is gone again, or another object has to be waited for
		}
		if f := rec.served.failover; f != nil && len(f.pool.endpoints) > 0 {
			s.metrics.coldStart(failedOver)
			rec.failedOver, rec.backend = true, f
			return true
		}
		s.metrics.coldStart(what)
		rec.noRoom = what == noRoomToWait
		p.refuseForNow(w, r, "HTTPScaledObject %s has no endpoint ready to take the request", rec.served.route.Name)
		return false
	}
}

// tellEnvoyToWait tells Envoy by an informational answer that a request waits for an
// endpoint. This ends Envoy's timeout for the response header: the application is not
// at fault yet. Envoy does not pass the answer on.
func tellEnvoyToWait(w http.ResponseWriter, r *http.Request) {
	if recordOf(r).handover == nil || !r.ProtoAtLeast(1, 1) {
		return
	}
	h := w.Header()
	connection := h["Connection"]
	delete(h, "Connection")
	w.WriteHeader(http.StatusProcessing)
	if connection != nil {
		h["Connection"] = connection
	}
}

// wait blocks until the route of the request has an endpoint, or there is a reason not
// to wait any longer.
func (p *Proxy) wait(r *http.Request, s *served) outcome {
	name, rec := s.route.Name, recordOf(r)
	wait, longer := p.waits(s.route)
	if wait <= 0 && (longer <= 0 || canFailOver(s.route)) {
		return waitedInVain
	}
	at := p.waiting.enter(name, heldBytes(r, overTLS(r)))
	if at == nil {
		return noRoomToWait
	}
	defer p.waiting.leave(at)
	rec.held = true
	readAhead(r)
	s.metrics.held.Inc()
	defer s.metrics.held.Dec()
	s.load.Hold()
	defer s.load.Release()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		changed := p.waiting.changed(at)
		now := p.lookup(r)
		switch {
		case now == nil:
			return unrouted
		case !rec.cold(now):
			return servedCold
		case now.Name != name:
			return moved
		case at.late && canFailOver(now):
			return waitedInVain
		}
		select {
		case <-changed:
		case <-timer.C:
			now := p.lookup(r)
			switch {
			case now != nil && !rec.cold(now):
				return servedCold // by another object that now matches the request
			case at.late || longer <= 0 || now == nil || canFailOver(now):
				return waitedInVain
			}
			p.waiting.waitLonger(at)
			timer.Reset(longer)
		case <-at.evicted:
			return noRoomToWait
		case <-p.waiting.closed:
			return waitedInVain
		case <-r.Context().Done():
			return abandoned
		}
	}
}

// overTLS tells whether the connection of a request has TLS.
func overTLS(r *http.Request) bool {
	from := recordOf(r).handover
	return r.TLS != nil || from != nil && from.overTLS
}
