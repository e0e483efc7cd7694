package main

import (
	"encoding/json"
	"html/template"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
)

var colours = []string{"red", "orange", "yellow", "green", "blue", "purple"}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<title>{{.}}</title>
<body style="background:{{.}}">
`))

// handler answers /color with the colour as a JSON string, / with a page in that
// colour, and /healthz for probes, which neither latency nor errors touch.
func handler(cfg config) http.Handler {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/color", func(w http.ResponseWriter, r *http.Request) {
		colour := cfg.pick()
		// Which pod answered, for whoever looks; the body stays the colour alone.
		w.Header().Set("X-Pod", hostname)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !wait(r.Context(), cfg.latency) {
			return
		}
		status := http.StatusOK
		if cfg.errorRate > 0 && rand.IntN(100) < cfg.errorRate {
			status = http.StatusInternalServerError
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
