package proxy

import (
	"net/http"
	"time"
)

// count counts a request in the metrics once it is over, however it ended.
func (p *Proxy) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		defer func() {
			m := p.metrics.unrouted
			if rec.backend != nil {
				m = rec.backend.metrics
			}
			m.answered(rec.finalCode())
			if rec.cutBy != "" {
				m.cutShort.inc(rec.cutBy)
			}
			if !rec.upgraded {
				m.duration.Observe(time.Since(rec.begun).Seconds())
			}
		}()
		next.ServeHTTP(w, r)
	})
}
