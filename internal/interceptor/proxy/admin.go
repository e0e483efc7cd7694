package proxy

import (
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// Admin returns what people and probes look at: /healthz is 200 unless healthy, which
// it asks each time, says what is wrong; /readyz is 200 once the table is there and
// until a drain begins, /debug/routes the table and the problems as JSON (RouteList).
// problems returns what is wrong with objects now.
func (p *Proxy) Admin(problems func() []routes.Problem, healthy func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			say(w, http.StatusInternalServerError, err.Error())
			return
		}
		say(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case p.Ready():
			say(w, http.StatusOK, "ok")
		case p.Synced():
			say(w, http.StatusServiceUnavailable, "draining: requests are served, and no new ones wanted")
		default:
			say(w, http.StatusServiceUnavailable, "the routes are not read yet")
		}
	})
	mux.HandleFunc("GET /debug/routes", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = writeRoutes(w, p.Table(), problems()) // who does not take it needs no telling
	})
	return mux
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n")) // who does not take it needs no telling
}
