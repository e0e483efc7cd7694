package watch

import (
	"fmt"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// contact logs trouble with the API server: when it begins and when it ends, not at
// each attempt.
type contact struct {
	log     *slog.Logger
	metrics *metrics

	mu     sync.Mutex
	states map[*source]*state
	away   int // sources that do not reach the API server
}

type state struct {
	trouble trouble
	// refused counts consecutive refusals. An API server that is starting refuses every
	// client for a moment, until it has read its roles.
	refused int
}

// trouble is why a source is not up to date.
type trouble int

const (
	none trouble = iota
	away
	refused
	missing
)

// refusals is how many consecutive refusals it takes for a line in the log.
const refusals = 3

func newContact(log *slog.Logger, m *metrics) *contact {
	return &contact{log: log, metrics: m, states: make(map[*source]*state)}
}

func (c *contact) begin(s *source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states[s] = &state{}
	c.gauge(s, 0)
}

func (c *contact) gauge(s *source, up float64) {
	// The watch of the address Service has no metric of its own: its resource is
	// Services, too.
	if s.kind < tableKinds {
		c.metrics.up.WithLabelValues(s.resource.GroupResource().String()).Set(up)
	}
}

// succeeded is called when a request of a source has succeeded.
func (c *contact) succeeded(s *source, verb string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.states[s]
	if verb == "watch" {
		c.gauge(s, 1)
	}
	// A list that succeeds does not end a refusal: the watch may still be refused.
	if st.trouble != none && (st.trouble != refused || verb == "watch") {
		c.over(s, st)
		st.trouble = none
	}
	if verb == "watch" {
		st.refused = 0
	}
}

// failed is called when a request of a source got no answer, or an error.
func (c *contact) failed(s *source, verb string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.states[s]
	c.gauge(s, 0)
	now := away
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		now = refused
		if st.refused++; st.refused < refusals {
			return
		}
	case apierrors.IsNotFound(err):
		now = missing
	}
	if now == st.trouble {
		return
	}
	c.over(s, st)
	st.trouble = now
	switch now {
	case away:
		if c.away++; c.away == 1 {
			c.log.Warn("the API server does not answer: what is known is served on, and it is asked again every few seconds", "error", err)
		}
	case refused:
		c.log.Error(fmt.Sprintf("the API server refuses to %s %s%s: what is known is served on. Grant list and watch on it to the interceptor's ServiceAccount: kubectl apply -k deploy/interceptor",
			verb, s.resource.GroupResource(), s.where()), "error", err)
	case missing:
		c.log.Error(fmt.Sprintf("the API server has no %s: install the definition: kubectl apply -k deploy/crds", s.resource.GroupResource()), "error", err)
	}
}

// refuses tells whether the API server keeps refusing a source.
func (c *contact) refuses(s *source) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states[s].trouble == refused
}

// over logs that the trouble in st has ended.
func (c *contact) over(s *source, st *state) {
	switch st.trouble {
	case away:
		if c.away--; c.away == 0 {
			c.log.Info("the API server answers again")
		}
	case refused, missing:
		c.log.Info("the API server lets us read again", "resource", s.resource.GroupResource().String())
	}
}

func (s *source) where() string {
	if s.namespace == "" {
		return " in all namespaces"
	}
	return fmt.Sprintf(" in namespace %q", s.namespace)
}
