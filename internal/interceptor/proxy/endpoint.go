package proxy

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// shunTime is how long an endpoint that could not be connected to is the last
// choice: about as long as it takes until a table without the endpoint arrives. For the same
// time a request that no endpoint could be connected to is sent again.
const shunTime = 2 * time.Second

// started is the time from which shunnedUntil is counted.
var started = time.Now()

// endpoint is one address of a backend. It is kept from table to table for as long as
// the backend has the address.
type endpoint struct {
	address netip.AddrPort
	host    string
	busy    atomic.Int64
	// shunnedUntil is in nanoseconds after started; 0 for an endpoint that is not shunned.
	shunnedUntil atomic.Int64
}

// shun makes the endpoint the last choice for shunTime. first is false when it was
// shunned already.
func (e *endpoint) shun() (first bool) {
	now := time.Since(started)
	before := e.shunnedUntil.Swap(int64(now + shunTime))
	return before <= int64(now)
}

// forgive ends a shun: the endpoint has answered.
func (e *endpoint) forgive() {
	if e.shunnedUntil.Load() != 0 {
		e.shunnedUntil.Store(0)
	}
}

func (e *endpoint) shunned() bool {
	until := e.shunnedUntil.Load()
	return until != 0 && until > int64(time.Since(started))
}

// pool is the endpoints of one backend.
type pool struct {
	endpoints []*endpoint
	protocol  routes.Protocol
}

// newPool makes a pool of these addresses. It takes over their endpoints from the pool
// before, which may be nil.
func newPool(addresses []netip.AddrPort, protocol routes.Protocol, before *pool) pool {
	p := pool{endpoints: make([]*endpoint, len(addresses)), protocol: protocol}
	known := make(map[netip.AddrPort]*endpoint)
	if before != nil {
		for _, e := range before.endpoints {
			known[e.address] = e
		}
	}
	for i, address := range addresses {
		if p.endpoints[i] = known[address]; p.endpoints[i] == nil {
			p.endpoints[i] = &endpoint{address: address, host: address.String()}
		}
	}
	return p
}

// shunned tells whether all endpoints are shunned.
func (p *pool) shunned() bool {
	return !slices.ContainsFunc(p.endpoints, func(e *endpoint) bool { return !e.shunned() })
}

// pick returns the less busy of two endpoints picked at random. It never returns the
// endpoint not, and a shunned one only when all others are shunned, too. It returns
// nil when there is no other endpoint.
func (p *pool) pick(not *endpoint) *endpoint {
	n := len(p.endpoints)
	switch n {
	case 0:
		return nil
	case 1:
		if e := p.endpoints[0]; e != not {
			return e
		}
		return nil
	}
	// The second is never the first: it is 1 to n-1 places further.
	i := rand.IntN(n)
	j := i + 1 + rand.IntN(n-1)
	if j >= n {
		j -= n
	}
	a, b := p.endpoints[i], p.endpoints[j]
	switch aGood, bGood := a != not && !a.shunned(), b != not && !b.shunned(); {
	case aGood && bGood:
		if b.busy.Load() < a.busy.Load() {
			return b
		}
		return a
	case aGood:
		return a
	case bGood:
		return b
	}
	var lastChoice *endpoint
	for k := range n {
		e := p.endpoints[(i+k)%n]
		if e == not {
			continue
		}
		if !e.shunned() {
			return e
		}
		if lastChoice == nil {
			lastChoice = e
		}
	}
	return lastChoice
}
