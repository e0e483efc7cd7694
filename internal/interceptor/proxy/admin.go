package proxy

import (
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// Admin returns the handler for people and probes. /healthz calls healthy for each
// request and is 500 if that returns an error. /readyz is 200 from the first SetTable
// until a drain or a withdrawal begins, and 503 otherwise. /debug/routes is the table and the current
// problems of objects, which problems returns, as JSON (RouteList). /loadreport is the
// stream of package loadreport.
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
		case p.withdrawn.Load():
			say(w, http.StatusServiceUnavailable, "withdrawn: the API server is not seen, and another interceptor sees it")
		case p.Synced():
			say(w, http.StatusServiceUnavailable, "draining: requests are served, and no new ones wanted")
		default:
			say(w, http.StatusServiceUnavailable, "the routes are not read yet")
		}
	})
	mux.HandleFunc("GET /debug/routes", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = writeRoutes(w, p.Table(), problems()) // nothing to do for a client that is gone
	})
	mux.Handle("GET "+loadreport.Path, p.loads)
	return mux
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n")) // nothing to do for a client that is gone
}
