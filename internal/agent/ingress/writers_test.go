package ingress

import (
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

// Somebody who writes an Ingress back five times in ten minutes is left alone; with the record
// of what the agent has written or without it.
func TestWrittenBackTooOften(t *testing.T) {
	for name, test := range map[string]struct {
		every      time.Duration
		keepRecord bool
		times      int // at which time it is too often; 0 for never
	}{
		"each second":                     {time.Second, true, 5},
		"each second, without the record": {time.Second, false, 5},
		"each two minutes":                {2 * time.Minute, true, 5},
		"each three minutes":              {3 * time.Minute, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(0, 0)
			r := &reconciler{now: func() time.Time { return now }}
			m := &memory{wirings: make(map[types.UID]*wirings)}
			i := ingress("nginx", "a.test / Prefix web:80")
			n := in([]httpv1alpha1.HTTPScaledObject{object("web", "a.test", "")}, i)
			var before record
			for times := range 20 {
				d := n.decide(i, before, nil)
				if often := r.writtenBackTooOften(m, i, d); often != (test.times > 0 && times == test.times) {
					t.Fatalf("written back %d times: too often is %v", times, often)
				} else if often {
					return
				}
				r.remember(m, i, d)
				if test.keepRecord {
					before = d.record
				}
				now = now.Add(test.every)
			}
		})
	}
}

// What the agent has put back itself nobody has written back.
func TestPutBackIsNotWrittenBack(t *testing.T) {
	r, m := &reconciler{now: time.Now}, &memory{wirings: make(map[types.UID]*wirings)}
	unwired, wired := ingress("nginx", "a.test / Prefix web:80"), ingress("nginx", "a.test / Prefix kedify-proxy:8080")
	n := in([]httpv1alpha1.HTTPScaledObject{object("web", "a.test", "")}, unwired)
	for range 10 {
		d := n.decide(unwired, nil, nil)
		if r.writtenBackTooOften(m, unwired, d) || len(d.changes) != 1 {
			t.Fatalf("changes %v, want one", d.changes)
		}
		r.remember(m, unwired, d)
		n.proxiesGone = true
		r.remember(m, wired, n.decide(wired, d.record, nil))
		n.proxiesGone = false
	}
}

func TestPause(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	r := &reconciler{now: func() time.Time { return now }}
	for text, want := range map[string]time.Duration{
		"2026-01-02T03:20:00Z":      20 * time.Minute,
		"2026-01-02T04:20:00+01:00": 20 * time.Minute,
		"2026-01-02T03:00:00Z":      0,
		"2026-01-02T02:59:59Z":      0,
		"for ever":                  0,
	} {
		i := ingress("nginx")
		i.Annotations = map[string]string{agent.LeftAloneAnnotation: text}
		if left, why := r.pause(i); left != want || (why != nil) != (want > 0) {
			t.Errorf("%s: %v for %v, want %v", text, why, left, want)
		}
	}
}

// Time is counted from when a state was seen first.
func TestMemory(t *testing.T) {
	start := time.Unix(0, 0)
	m := &memory{seen: make(map[types.UID]sighting)}
	i := ingress("nginx")
	for _, step := range []struct {
		at    time.Duration
		state string
		want  time.Duration
	}{{0, "1", 0}, {2 * time.Second, "1", 2 * time.Second}, {3 * time.Second, "2", 0}, {4 * time.Second, "2", time.Second}} {
		if got := m.seenFor(i, step.state, start.Add(step.at)); got != step.want {
			t.Errorf("state %s after %v: seen for %v, want %v", step.state, step.at, got, step.want)
		}
	}
	m.forgetOthers([]networkingv1.Ingress{*i})
	if len(m.seen) != 1 {
		t.Error("an Ingress that is there was forgotten")
	}
	m.forgetOthers(nil)
	if len(m.seen) != 0 {
		t.Error("an Ingress that is gone was not forgotten")
	}
	var left []time.Duration
	for _, none := range []bool{false, true, true, false, true} {
		left = append(left, m.withoutProxies(start, none))
		start = start.Add(4 * time.Second)
	}
	if want := []time.Duration{0, 10 * time.Second, 6 * time.Second, 0, 10 * time.Second}; !slices.Equal(left, want) {
		t.Errorf("without kedify-proxies %v are left, want %v", left, want)
	}
}
