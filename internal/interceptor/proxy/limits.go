package proxy

import (
	"math"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
)

// Limits returns how near the Proxy is to its limits.
func (p *Proxy) Limits() []usage.Limit {
	limits := append(p.waiting.limits(), p.limitUsed())
	for _, c := range []*connections{p.clients, p.fallbackConnections} {
		limits = append(limits, usage.Limit{Name: "max-connections", Used: float64(c.open.Load()), Max: float64(c.most)})
	}
	p.boundedMu.Lock()
	defer p.boundedMu.Unlock()
	for _, b := range p.bounded {
		limits = append(limits, b.limits()...)
	}
	if used, _, limit := memoryInUse(); limit != math.MaxInt64 {
		limits = append(limits, usage.Limit{Name: "GOMEMLIMIT", Used: float64(used), Max: float64(limit)})
	}
	return limits
}

func (w *waitingRoom) limits() []usage.Limit {
	w.mu.Lock()
	defer w.mu.Unlock()
	object := int64(0)
	for _, c := range w.cold {
		object = max(object, c.object.used[inRequests])
	}
	return []usage.Limit{
		{Name: "max-held", Used: float64(w.all.used[inRequests]), Max: float64(w.most[inRequests])},
		{Name: "max-held-bytes", Used: float64(w.all.used[inBytes]), Max: float64(w.most[inBytes])},
		{Name: "max-held-per-route", Used: float64(object), Max: float64(w.maxPerRoute)},
	}
}
