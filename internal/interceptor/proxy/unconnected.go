package proxy

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// A pod may be listed as ready for a moment after it has exited. So a request that no
// endpoint could be connected to is sent again, for shunTime from its first such failure
// on: at once while there are endpoints worth a try, else when there is one, and once more
// at the end. It waits for that with the requests of cold starts, see hold.

// sendAgain tells whether a request that no endpoint could be connected to, and of whose
// body nothing was read, is sent again; if so, hold does it. A route with a conditionWait
// shorter than shunTime has that time instead.
func (p *Proxy) sendAgain(rec *record) bool {
	now := time.Now()
	if !rec.triedInVain() {
		rec.lastTry = now.Add(min(shunTime, p.conditionWait(rec.served.route)))
	}
	rec.unsent = !rec.failedOver && now.Before(rec.lastTry)
	rec.triedAgain = rec.triedAgain || rec.unsent
	return rec.unsent
}

// triedInVain tells whether the request was tried before, and no endpoint could be
// connected to.
func (rec *record) triedInVain() bool { return !rec.lastTry.IsZero() }

// waitsBriefly tells whether a request that has to wait for a route does so until its last
// try at most. Where no ready endpoint is listed, it waits as for a cold start.
func (rec *record) waitsBriefly(route *routes.Route) bool {
	return rec.triedInVain() && route.HasReady()
}

// worthATry returns the index of a backend that has a share and a ready endpoint that is
// not shunned: of the first such backend from index from on. It returns -1 if there is
// none.
func (s *served) worthATry(from int) int {
	for i := range s.backends {
		at := (from + i) % len(s.backends)
		if s.chooser.hasShare(at) && len(s.route.Backends[at].Ready) > 0 && !s.backends[at].pool.shunned() {
			return at
		}
	}
	return -1
}
