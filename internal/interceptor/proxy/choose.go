package proxy

import (
	"net/http"
	"time"
)

// choose chooses the Service that a request is for, by the weights of its route, and
// another for the case that the first cannot be connected to.
func (p *Proxy) choose(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		if !rec.failedOver {
			rec.backend, rec.second = rec.served.choose(rec)
		}
		if rec.tooLate {
			refuseTooLate(w, r, p.responseHeader(rec.served))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// choose returns the first backend for a request, and the second, nil for none. Without
// endpoints, the first is any.
func (s *served) choose(rec *record) (first, second *backend) {
	index := s.triedBefore(rec)
	if index < 0 {
		index = max(s.chooser.next(), 0)
	}
	if rec.triedInVain() { // each further try finds another endpoint
		if again := s.worthATry(index); again >= 0 {
			index = again
		}
	}
	if other := s.chooser.other(index); other >= 0 {
		second = &s.backends[other]
	}
	return &s.backends[index], second
}

// triedBefore returns the index of the Service that Envoy has tried, so that a second
// try does not shift the split; -1 if it has not tried one, or if that has no share now.
func (s *served) triedBefore(rec *record) int {
	if !rec.secondTry {
		return -1
	}
	for i := range s.backends {
		if s.backends[i].service == rec.handover.service && s.chooser.hasShare(i) {
			return i
		}
	}
	return -1
}

// responseHeader returns how long an application may take to answer with headers, 0 for
// as long as it likes.
func (p *Proxy) responseHeader(s *served) time.Duration {
	if s.route.ResponseHeader != nil {
		return *s.route.ResponseHeader
	}
	return p.settings.ResponseHeader
}
