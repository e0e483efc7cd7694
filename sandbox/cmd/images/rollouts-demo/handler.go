package main

import (
	"encoding/json"
	"html/template"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
)

var colours = []string{"red", "orange", "yellow", "green", "blue", "purple"}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<title>{{.}}</title>
<body style="background:{{.}}">
`))

// stats is what one instance has answered on /color since it started.
type stats struct {
	// Requests counts all answers, Failed the answers with a status of 500.
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed"`
}

// handler answers /color with the colour as a JSON string, / with a page in that
// colour, /stats with how many requests of /color it has answered, and /healthz
// for probes. Latency and errors apply only to /color.
func handler(cfg config) http.Handler {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	var requests, failed atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/color", func(w http.ResponseWriter, r *http.Request) {
		colour := cfg.pick()
		// The pod that answered, for clients that want it; the body is only the
		// colour.
		w.Header().Set("X-Pod", hostname)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !wait(r.Context(), cfg.latency) {
			return
		}
		requests.Add(1)
		status := http.StatusOK
		if cfg.errorRate > 0 && rand.IntN(100) < cfg.errorRate {
			status = http.StatusInternalServerError
			failed.Add(1)
		}
		w.WriteHeader(status)
		// The colour in quotes and nothing after it, as the published image does.
		body, err := json.Marshal(colour)
		if err == nil {
			_, err = w.Write(body)
		}
		if err != nil {
			log.Printf("answer to %s: %v", r.RemoteAddr, err)
			return
		}
		log.Printf("%d %s", status, colour)
	})
	mux.HandleFunc("/stats", func(w http.ResponseWriter, r *http.Request) {
		// Failed is read first, so that it is never more than Requests.
		now := stats{Failed: failed.Load()}
		now.Requests = requests.Load()
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(now); err != nil {
			log.Printf("stats to %s: %v", r.RemoteAddr, err)
		}
	})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := page.Execute(w, cfg.pick()); err != nil {
			log.Printf("page to %s: %v", r.RemoteAddr, err)
		}
	})
	return mux
}

func (c config) pick() string {
	if c.colour != "" {
		return c.colour
	}
	return colours[rand.IntN(len(colours))]
}
