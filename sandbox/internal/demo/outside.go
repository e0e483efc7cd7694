package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// outsidePort is the port in sandbox/manifests/demo-steps.
const outsidePort = "8099"

// outside is a chat that shows its messages, and the monitoring of the other region.
type outside struct {
	*http.Server
	// said is called with each message, for the screen.
	said func(string)

	mu      sync.Mutex
	chat    []string
	refused []string
	failed  bool
}

func newOutside(said func(string)) (*outside, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(cluster.NodeIP.String(), outsidePort))
	if err != nil {
		return nil, err
	}
	o := &outside{said: said}
	o.Server = &http.Server{Handler: o.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = o.Serve(listener) }() // a step without an answer reports it
	return o, nil
}

func (o *outside) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chat", o.hear)
	mux.HandleFunc("GET /monitoring/"+checkout, func(w http.ResponseWriter, _ *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.failed {
			_, _ = io.WriteString(w, `{"state":"failed","errorPercent":15}`)
			return
		}
		_, _ = io.WriteString(w, `{"state":"watching","errorPercent":0}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { o.refuse(w, r, errors.New("there is nothing")) })
	return mux
}

// hear takes a message as a chat does: an object with a text and nothing else.
func (o *outside) hear(w http.ResponseWriter, r *http.Request) {
	var message struct {
		Text string `json:"text"`
	}
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields()
	err := body.Decode(&message)
	if err == nil && message.Text == "" {
		err = errors.New("text is empty")
	}
	if err != nil {
		o.refuse(w, r, err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.chat = append(o.chat, message.Text)
	o.said(message.Text)
}

func (o *outside) refuse(w http.ResponseWriter, r *http.Request, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = append(o.refused, fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, why))
	http.Error(w, why.Error(), http.StatusBadRequest)
}

// fail lets the monitoring say that the new version fails.
func (o *outside) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = true
}

// heard returns the messages so far, and the requests that were refused.
func (o *outside) heard() (chat, refused []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.chat), slices.Clone(o.refused)
}
