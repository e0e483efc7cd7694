package figures_test

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// busy is a scaler that knows of 10 requests a second at an interceptor, and 10 at an Envoy,
// for more than a window; each has 5 under way.
func busy() *clocked {
	c := start([]string{"a"}, envoy)
	c.each(70, func(i int) { c.both(i) })
	return c
}

func (c *clocked) both(i int) {
	c.Apply("a", loadreport.Message{Sources: []loadreport.Source{source("own", "", 10*i, 5, 0), source("lrs", envoy, 10*i, 5, 0)}})
}

func (c *clocked) own(i int) { c.Apply("a", message("own", "", 10*i, 5, 0)) }

// A silent proxy counts with its last figure for a window, and then the figure is an error
// that names it.
func TestSilentProxy(t *testing.T) {
	t.Run("a kedify-proxy", func(t *testing.T) {
		c := busy()
		c.wantRate(t, 20, 0.01)
		c.each(60, func(i int) {
			c.own(70 + i)
			c.wantRate(t, 20, 0.01)
			c.wantConcurrency(t, 10)
		})
		c.each(30, func(i int) { c.own(130 + i) })
		c.wantError(t, "kedify-proxy "+envoy+" has not reported for 1m30s", "whether it reaches an interceptor")
		if !c.Active(app, minute) {
			t.Error("want the object active: requests are known to be under way")
		}
		if err := c.Missing("other", time.Minute); err != nil {
			t.Errorf("another namespace has its own kedify-proxies, but: %v", err)
		}
		c.both(160)
		c.wantRate(t, 20, 0.02)
	})
	t.Run("one of which the stream ended", func(t *testing.T) {
		c := busy()
		c.Apply("a", loadreport.Message{Sources: []loadreport.Source{{ID: "lrs", Address: envoy, Ended: true, Objects: source("", "", 700, 5, 0).Objects}}})
		c.each(10, func(i int) {
			c.own(70 + i)
			c.wantRate(t, 20, 0.01)
			c.wantConcurrency(t, 10)
		})
		c.each(100, func(i int) { c.own(80 + i) })
		c.wantError(t, "kedify-proxy "+envoy)
	})
	t.Run("an interceptor", func(t *testing.T) {
		c := busy()
		c.Disconnected("a")
		c.each(60, func(int) {
			c.wantRate(t, 20, 0.01)
			c.wantConcurrency(t, 10)
		})
		c.pass(2 * time.Second)
		c.wantError(t, "interceptor a has not reported for 1m2s", "NetworkPolicies")
	})
	t.Run("one without load reports", func(t *testing.T) {
		c := start([]string{"a"}, envoy)
		c.Apply("a", loadreport.Message{Sources: []loadreport.Source{{ID: "none", Address: envoy, WithoutLoadReports: true}}})
		c.each(20, func(i int) { c.own(i) })
		c.wantError(t, "kedify-proxy "+envoy, "lacks load_stats_config")
		c.both(21)
		c.each(2, func(i int) { c.both(21 + i) })
		if _, err := c.Rate(app, minute); err != nil {
			t.Errorf("it has a stream now, but: %v", err)
		}
	})
	t.Run("one that reports to another interceptor", func(t *testing.T) {
		c := start([]string{"a", "b"}, envoy)
		c.Apply("b", loadreport.Message{Sources: []loadreport.Source{{ID: "none", Address: envoy, WithoutLoadReports: true}}})
		c.each(100, func(i int) {
			c.both(i)
			c.Apply("b", loadreport.Message{})
		})
		c.each(70, func(i int) {
			c.own(100 + i)
			c.Apply("b", loadreport.Message{})
		})
		c.wantError(t, "kedify-proxy "+envoy, "has not reported for 1m10s")
	})
	t.Run("no interceptor", func(t *testing.T) {
		c := busy()
		c.expect(nil, envoy)
		c.wantError(t, "no interceptor is ready")
	})
}

// A proxy that left has nothing under way, and what it counted ages out.
func TestProxyThatLeft(t *testing.T) {
	c := busy()
	c.Apply("a", loadreport.Message{Sources: []loadreport.Source{{ID: "lrs", Address: envoy, Ended: true}}})
	c.wantConcurrency(t, 10)
	c.expect([]string{"a"})
	c.wantConcurrency(t, 5)
	c.each(30, func(i int) { c.own(70 + i) })
	c.wantRate(t, 15, 0.01)
	c.each(31, func(i int) { c.own(100 + i) })
	c.wantRate(t, 10, 0.01)
}

// A proxy that leaves and reports on, as it ends, counts until it does.
func TestProxyThatDrains(t *testing.T) {
	c := busy()
	c.expect([]string{"a"})
	c.each(10, func(i int) { c.both(70 + i) })
	c.wantRate(t, 20, 0.02)
	c.wantConcurrency(t, 10)
	c.Apply("a", loadreport.Message{Sources: []loadreport.Source{{ID: "lrs", Address: envoy, Ended: true}}})
	c.wantConcurrency(t, 5)
}

// An interceptor that leaves takes with it what is under way there, but not what is at an
// Envoy that told it.
func TestInterceptorThatLeft(t *testing.T) {
	c := start([]string{"a", "b"}, envoy)
	both := func(i int) {
		c.both(i)
		c.Apply("b", message("b", "", 10*i, 7, 0))
	}
	c.each(70, both)
	c.wantConcurrency(t, 17)
	c.expect([]string{"b"}, envoy)
	c.Disconnected("a")
	c.wantConcurrency(t, 12)
	c.pass(5 * time.Second)
	c.Apply("b", loadreport.Message{Sources: []loadreport.Source{source("b", "", 750, 7, 0), source("lrs2", envoy, 50, 4, 0)}})
	c.wantConcurrency(t, 11)
}

// A request that is refused does not count, nor does it leave the object active.
func TestRefusedRequests(t *testing.T) {
	c := start([]string{"a"})
	c.Apply("a", loadreport.Message{})
	requests := 0
	c.each(60, func(int) {
		requests += 7
		c.Apply("a", message("own", "", requests, 3, 3))
		c.pass(300 * time.Millisecond)
		requests -= 7
		c.Apply("a", message("own", "", requests, 0, 0))
		c.wantRate(t, 0, 0)
	})
	if rate, err := c.Rate(app, minute); err != nil || rate != 0 || c.Active(app, minute) {
		t.Errorf("the rate is %v (%v), active: %v", rate, err, c.Active(app, minute))
	}
}

// A deleted object begins at 0 when it is made again.
func TestDeletedObject(t *testing.T) {
	for name, gone := range map[string]func(c *clocked){
		"told": func(c *clocked) {
			c.Apply("a", loadreport.Message{Sources: []loadreport.Source{{ID: "own", Objects: []loadreport.Object{{Namespace: app.Namespace, Name: app.Name, Gone: true}}}}})
		},
		"while the stream was broken": func(c *clocked) {
			c.Disconnected("a")
			c.Apply("a", loadreport.Message{Sources: []loadreport.Source{{ID: "own"}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := start([]string{"a"})
			c.each(70, c.own)
			gone(c)
			c.wantConcurrency(t, 0)
			c.each(60, func(i int) {
				c.Apply("a", message("own", "", 10*i, 0, 0))
				c.wantRate(t, 10, 0.03)
			})
		})
	}
}
