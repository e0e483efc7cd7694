package figures_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

const (
	namespace = "shop"
	envoy     = "10.0.1.1"
)

var (
	app    = figures.Key{Namespace: namespace, Name: "app"}
	minute = figures.DefaultWindow
)

// clocked is Figures with a clock that a test sets.
type clocked struct {
	*figures.Figures
	time time.Time
}

func start(interceptors []string, kedifyProxies ...string) *clocked {
	c := &clocked{time: time.Unix(1e9, 0)}
	c.Figures = figures.New(func() time.Time { return c.time })
	c.expect(interceptors, kedifyProxies...)
	return c
}

func (c *clocked) expect(interceptors []string, kedifyProxies ...string) {
	c.SetExpected(interceptors, map[string][]string{namespace: kedifyProxies})
}

func (c *clocked) pass(d time.Duration) { c.time = c.time.Add(d) }

// each calls do with the number of each of so many seconds, at its end.
func (c *clocked) each(seconds int, do func(i int)) {
	for i := range seconds {
		c.pass(time.Second)
		do(i + 1)
	}
}

// message is one Source with figures of app.
func message(id, address string, requests, active, held int) loadreport.Message {
	return loadreport.Message{Sources: []loadreport.Source{source(id, address, requests, active, held)}}
}

func source(id, address string, requests, active, held int) loadreport.Source {
	return loadreport.Source{ID: id, Address: address, Objects: []loadreport.Object{{
		Namespace: app.Namespace, Name: app.Name, Requests: int64(requests), Active: int64(active), Held: int64(held),
	}}}
}

func (c *clocked) wantRate(t *testing.T, want, within float64) {
	t.Helper()
	if rate, err := c.Rate(app, minute); err != nil || math.Abs(rate-want) > within*want {
		t.Errorf("the rate is %v (%v), want %v within %v %%", rate, err, want, 100*within)
	}
}

func (c *clocked) wantConcurrency(t *testing.T, want int64) {
	t.Helper()
	if active, err := c.Concurrency(app); err != nil || active != want {
		t.Errorf("%v requests are under way (%v), want %v", active, err, want)
	}
}

func (c *clocked) wantError(t *testing.T, parts ...string) {
	t.Helper()
	_, err := c.Rate(app, minute)
	if _, other := c.Concurrency(app); (err == nil) != (other == nil) {
		t.Errorf("the rate's error is %v, that of concurrency is %v", err, other)
	}
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q in it", err, part)
		}
	}
}

// A new scaler does not know when the requests came that were counted before it, and
// divides by the time that it has seen.
func TestNewScaler(t *testing.T) {
	c := start([]string{"a"}, envoy)
	c.wantError(t, "interceptor a", "has not reported since this scaler started")
	c.Apply("a", loadreport.Message{Sources: []loadreport.Source{source("own", "", 5000, 0, 0), source("lrs", envoy, 70000, 0, 0)}})
	c.wantError(t, "interceptor a", "only just begun")
	c.each(10, func(i int) {
		c.Apply("a", loadreport.Message{Sources: []loadreport.Source{source("own", "", 5000+10*i, 0, 0), source("lrs", envoy, 70000+90*i, 0, 0)}})
		if i == 1 {
			// Its counts before may have been of any time.
			c.wantError(t, "kedify-proxy "+envoy, "only just begun")
			return
		}
		c.wantRate(t, 100, 0.01)
	})
}

// An Envoy with many clusters reports seldom. What it reports first to a new scaler has
// begun before that, and is not taken for the requests of the scaler's time.
func TestNewScalerBesideAnEnvoyThatReportsSeldom(t *testing.T) {
	for _, interval := range []int{1, 3, 6, 10} {
		c := start([]string{"a"}, envoy)
		c.Apply("a", loadreport.Message{Sources: []loadreport.Source{source("own", "", 0, 0, 0), source("lrs", envoy, 1000, 0, 0)}})
		requests, known := 1000, 0
		c.pass(100 * time.Millisecond)
		c.each(30, func(i int) {
			c.own(0)
			if (i-1)%interval == 0 {
				requests += 100 * interval
				c.Apply("a", loadreport.Message{Sources: []loadreport.Source{source("own", "", 0, 0, 0), source("lrs", envoy, requests, 0, 0)}})
			}
			rate, err := c.Rate(app, minute)
			if err != nil {
				return
			}
			if known++; math.Abs(rate-100) > 1 {
				t.Errorf("reports each %d s: after %d s the rate is %v, want 100", interval, i, rate)
			}
		})
		if known < 30-2*interval {
			t.Errorf("reports each %d s: the rate is known for %d s of 30", interval, known)
		}
	}
}

// Requests of proxies that start later count as soon as they are known, with nothing before.
func TestNewProxies(t *testing.T) {
	c := start([]string{"a"})
	c.Apply("a", loadreport.Message{})
	c.each(60, func(int) { c.Apply("a", loadreport.Message{}) })
	c.wantRate(t, 0, 0)
	c.pass(time.Second)
	c.expect([]string{"a"}, envoy)
	c.Apply("a", message("lrs", envoy, 60, 0, 0))
	c.wantRate(t, 1, 0.01)
}

func TestConcurrencyAndHeld(t *testing.T) {
	c := start([]string{"a", "b"})
	held, cancel := c.Subscribe(app)
	defer cancel()
	c.Apply("a", message("a1", "", 3, 3, 0))
	c.Apply("b", message("b1", "", 4, 4, 0))
	c.pass(time.Second)
	c.Apply("a", message("a1", "", 3, 3, 0))
	c.Apply("b", message("b1", "", 4, 4, 0))
	c.wantConcurrency(t, 7)
	if c.Held(app) || !c.Active(app, minute) {
		t.Error("want the object active, and no request held")
	}
	select {
	case <-held:
		t.Error("told of a held request where none is")
	default:
	}
	c.Apply("b", message("b1", "", 5, 5, 1))
	select {
	case <-held:
	default:
		t.Error("not told of the request that is held")
	}
	if !c.Held(app) {
		t.Error("want a request held")
	}
}

// Kedify-proxies whose connections come from one address are told apart by their pods.
func TestProxiesBehindAGateway(t *testing.T) {
	const one, other = namespace + "/kedify-proxy-1", namespace + "/kedify-proxy-2"
	c := start([]string{"a"}, one, other)
	report := func(i int) {
		m := loadreport.Message{Sources: []loadreport.Source{source("1", envoy, 10*i, 1, 0), source("2", envoy, 20*i, 2, 0)}}
		m.Sources[0].Pod, m.Sources[1].Pod = one, other
		c.Apply("a", m)
	}
	report(0)
	c.each(60, report)
	c.wantRate(t, 30, 0.01)
	c.wantConcurrency(t, 3)
	c.each(80, func(i int) {
		c.Apply("a", loadreport.Message{Sources: []loadreport.Source{{ID: "1", Address: envoy, Pod: one}}})
	})
	c.wantError(t, "kedify-proxy "+other, "has not reported")
}
