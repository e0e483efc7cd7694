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

	// moved is a request that now waits for another object, or for another time: the wait
	// goes on so, and nothing is counted.
	moved outcome = "moved"
)

var outcomes = []outcome{servedCold, failedOver, waitedInVain, noRoomToWait, abandoned, unrouted}

// conditionWait returns how long a request of a route waits for an endpoint where nothing
// else is said.
func (p *Proxy) conditionWait(route *routes.Route) time.Duration {
	if route.ConditionWait != nil {
		return *route.ConditionWait
	}
	return p.settings.ConditionWait
}

// waits returns how long a request of a cold route waits for an endpoint, and how much
// longer if the failover has no endpoint either by then.
func (p *Proxy) waits(route *routes.Route) (wait, longer time.Duration) {
	wait = p.conditionWait(route)
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
// A request that was sent to endpoints that could not be connected to may wait after that.
func (p *Proxy) hold(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		for {
			if p.hasToWait(rec, rec.served.route) && !rec.tooLate {
				tellEnvoyToWait(w, r)
				if !p.waitForEndpoint(w, r, rec) {
					return
				}
			}
			rec.unsent = false
			next.ServeHTTP(w, r)
			if !rec.unsent {
				return
			}
		}
	})
}

// hasToWait tells whether a request has to wait for an endpoint of a route, as there is
// none; or, if it was tried in vain, none that is ready and not shunned.
func (p *Proxy) hasToWait(rec *record, route *routes.Route) bool {
	if !rec.triedInVain() || route.Cold() {
		return route.Cold()
	}
	s, ok := p.find(route)
	return !ok || s.worthATry(0) < 0 // not ok: there is another table by now
}

// waitForEndpoint returns once the request can be sent on; false when it was answered.
func (p *Proxy) waitForEndpoint(w http.ResponseWriter, r *http.Request, rec *record) bool {
	for {
		s := rec.served
		brief, count := rec.waitsBriefly(s.route), s.metrics.coldStart
		if brief { // it is no cold start
			count = func(outcome) {}
		}
		if !rec.triedInVain() {
			rec.backend = &s.backends[0]
		}
		what := p.wait(r, s)
		if what == abandoned {
			count(what)
			abandon(r)
		}
		if rec.served = p.servedFor(r); what == unrouted || rec.served == nil {
			count(unrouted)
			rec.served, rec.backend = nil, nil
			p.refuseUnmatched(w, r)
			return false
		}
		rec.moveLoad()
		if !p.hasToWait(rec, rec.served.route) {
			count(servedCold)
			return true
		}
		if what == servedCold || what == moved || brief != rec.waitsBriefly(rec.served.route) {
			continue // the endpoint is gone again, or something else has to be waited for
		}
		if brief {
			rec.lastTry = time.Now() // also if there is no room to wait
			return true
		}
		if f := rec.served.failover; f != nil && len(f.pool.endpoints) > 0 {
			count(failedOver)
			rec.failedOver, rec.backend, rec.second = true, f, nil
			return true
		}
		count(what)
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

// wait blocks until the request does not have to wait for its route, or there is a reason
// not to wait any longer.
func (p *Proxy) wait(r *http.Request, s *served) outcome {
	name, rec := s.route.Name, recordOf(r)
	wait, longer := p.waits(s.route)
	brief := rec.waitsBriefly(s.route)
	if brief {
		wait, longer = time.Until(rec.lastTry), 0
	}
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
		case !p.hasToWait(rec, now):
			return servedCold
		case now.Name != name || rec.waitsBriefly(now) != brief:
			return moved
		case at.late && canFailOver(now):
			return waitedInVain
		}
		select {
		case <-changed:
		case <-timer.C:
			now := p.lookup(r)
			switch {
			case now != nil && !p.hasToWait(rec, now):
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
