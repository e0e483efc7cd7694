package ingress

import (
	"context"
	"fmt"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

const (
	// tooOften is how many times in tooOftenWithin somebody may write an Ingress back.
	tooOften       = 5
	tooOftenWithin = 10 * time.Minute
)

// wirings are what is remembered of one Ingress.
type wirings struct {
	// pointed are the paths that the agent has pointed at kedify-proxy and not put back.
	pointed map[string]bool
	// again are the times at which it has pointed a path there again.
	again []time.Time
}

// rewrites returns how many paths somebody has written back: the record names them, or, if
// that was lost too, the agent remembers them.
func (w *wirings) rewrites(d *decision) int {
	count := len(d.rewritten)
	if count == 0 {
		for _, c := range d.changes {
			if c.toProxy() && w.pointed[c.where] {
				count++
			}
		}
	}
	return count
}

// writtenBackTooOften tells whether an Ingress is to be left alone from now on.
func (r *reconciler) writtenBackTooOften(m *memory, i *networkingv1.Ingress, d *decision) bool {
	w := m.wirings[i.UID]
	if w == nil || w.rewrites(d) == 0 {
		return false
	}
	recent := w.again[:0]
	for _, at := range w.again {
		if r.now().Sub(at) < tooOftenWithin {
			recent = append(recent, at)
		}
	}
	w.again = recent
	return len(recent) >= tooOften-1
}

// remember remembers what was written to an Ingress.
func (r *reconciler) remember(m *memory, i *networkingv1.Ingress, d *decision) {
	w := m.wirings[i.UID]
	if w == nil {
		w = &wirings{pointed: make(map[string]bool)}
		m.wirings[i.UID] = w
	}
	if w.rewrites(d) > 0 {
		w.again = append(w.again, r.now())
	}
	for _, c := range d.changes {
		if c.toProxy() {
			w.pointed[c.where] = true
		} else {
			delete(w.pointed, c.where)
		}
	}
}

// pause returns for how long an Ingress is left alone now, and why; nil if it is not.
func (r *reconciler) pause(i *networkingv1.Ingress) (left time.Duration, why error) {
	text, is := i.Annotations[agent.LeftAloneAnnotation]
	if !is {
		return 0, nil
	}
	until, err := time.Parse(time.RFC3339, text)
	if err != nil || !r.now().Before(until) {
		return 0, nil
	}
	return until.Sub(r.now()), fmt.Errorf("ingress %s is left alone until %s, as somebody has written it back %d times in %v: have the writer ignore the backend (docs/how-to/gitops.md), and remove the Ingress's annotation %s",
		i.Name, text, tooOften, tooOftenWithin, agent.LeftAloneAnnotation)
}

// beginPause leaves an Ingress alone as it is, and tells.
func (r *reconciler) beginPause(ctx context.Context, m *memory, i *networkingv1.Ingress, d *decision) error {
	until := r.now().Add(r.leaveAlone).UTC().Format(time.RFC3339)
	operations := append([]operation{{"test", "/metadata/resourceVersion", i.ResourceVersion}}, annotation(i, agent.LeftAloneAnnotation, until)...)
	if err := send(ctx, r.Client, i, operations); err != nil {
		return err
	}
	delete(m.wirings, i.UID)
	message := fmt.Sprintf("Ingress %s/%s was written back %d times in %v, and is left alone until %s: its requests may not pass kedify-proxy, and a canary gets none of them. Have the writer ignore the backend (docs/how-to/gitops.md), and remove the annotation %s",
		i.Namespace, i.Name, tooOften, tooOftenWithin, until, agent.LeftAloneAnnotation)
	r.reporter.Problem(i, leftAlone, message)
	for _, c := range d.changes {
		if ro := r.rolloutOf(ctx, i.Namespace, c.object); ro != nil {
			r.reporter.Problem(ro, leftAlone, message)
		}
	}
	return nil
}

// escape escapes a key for a JSON pointer (RFC 6901).
func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
