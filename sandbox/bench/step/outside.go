package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// slowness is how long the slow outside takes to answer a poll of a run.
const slowness = 10 * time.Second

// outside is a system in which steps start runs that do not end.
type outside struct {
	url string
	// started counts the runs.
	started atomic.Int32
}

func newOutside() (*outside, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(cluster.NodeIP.String(), "0"))
	if err != nil {
		return nil, err
	}
	o := &outside{url: "http://" + listener.Addr().String()}
	mux := http.NewServeMux()
	running := func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"id":"1","status":"running"}`) }
	mux.HandleFunc("POST /runs", func(w http.ResponseWriter, _ *http.Request) {
		o.started.Add(1)
		w.WriteHeader(http.StatusCreated)
		running(w)
	})
	mux.HandleFunc("GET /runs/1", func(w http.ResponseWriter, _ *http.Request) { running(w) })
	mux.HandleFunc("GET /slow/1", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(slowness):
			running(w)
		case <-r.Context().Done():
		}
	})
	serve(listener, mux)
	return o, nil
}

// config is the configuration, as JSON, of a step that starts a run, and polls it at a path.
func (o *outside) config(path string) string {
	return fmt.Sprintf(`{"http": {"server": {"url": %q}, "request": {"url": "/runs", "json": {"image": "{{ images.new[\"app\"] }}"}}, `+
		`"outputs": {"id": "response.json.id"}, "poll": {"url": "%s/{{ outputs.id }}", `+
		`"successCondition": "response.json.status == \"passed\"", "failureCondition": "response.json.status in [\"failed\", \"cancelled\"]"}}}`, o.url, path)
}

// serve serves until this process ends.
func serve(listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // a client without an answer reports it
}
