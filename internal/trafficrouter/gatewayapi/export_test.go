package gatewayapi

import "time"

// known tells whether the age of a route's generation has been asked for.
func (r *reports) known(ref routeRef) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.since[ref]
	return ok
}

// backdate has all routes be of their generation for longer.
func (r *reports) backdate(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, since := range r.since {
		since.at = since.at.Add(-by)
		r.since[ref] = since
	}
}
