package proxy

import "net/http"

// countLoad counts a request for scalers: as under way until it is over, and once as one
// that has arrived, unless it is refused by a limit. A second try of Envoy is under way
// here; its first one has counted where it was sent.
func (p *Proxy) countLoad(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r)
		rec.beginLoad()
		defer func() { rec.endLoad(!rec.limited && !rec.noRoom) }()
		next.ServeHTTP(w, r)
	})
}

func (rec *record) beginLoad() {
	rec.load = rec.served.load
	rec.load.Begin()
	if !rec.secondTry {
		rec.load.Count(1)
	}
}

// endLoad ends what beginLoad began, and takes the count back unless the request counts.
func (rec *record) endLoad(counts bool) {
	if !counts && !rec.secondTry {
		rec.load.Count(-1)
	}
	rec.load.End()
}

// moveLoad counts a request that has waited for the object that it belongs to now, so that
// this is the one that is scaled.
func (rec *record) moveLoad() {
	if rec.load != rec.served.load {
		rec.endLoad(false)
		rec.beginLoad()
	}
}
