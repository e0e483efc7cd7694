package figures_test

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

// Proxies that take the place of others, and of which none has reported, have an unknown
// number of requests, and not 0: a scaler that reaches no interceptor would else tell KEDA
// at each of their restarts to take a busy application to zero.
func TestReplacedProxiesThatNobodyHears(t *testing.T) {
	t.Run("interceptors", func(t *testing.T) {
		c := start([]string{"a"})
		c.pass(10 * time.Minute)
		c.wantError(t, "interceptor a", "has not reported since this scaler started")
		c.expect([]string{"b"})
		c.pass(5 * time.Second)
		c.wantError(t, "interceptor b", "has not reported since it became ready, 5s ago")
		c.Apply("b", loadreport.Message{})
		c.pass(time.Second)
		c.Apply("b", message("b", "", 10, 1, 0))
		c.wantConcurrency(t, 1)
	})
	t.Run("an interceptor that comes back", func(t *testing.T) {
		c := busy()
		c.Disconnected("a")
		c.pass(10 * time.Minute)
		c.wantError(t, "interceptor a has not reported for 10m")
		c.expect(nil, envoy)
		c.expect([]string{"a"}, envoy)
		c.wantError(t, "interceptor a", "since it became ready")
	})
	t.Run("kedify-proxies", func(t *testing.T) {
		c := start([]string{"a"}, envoy)
		c.each(600, c.own)
		c.wantError(t, "kedify-proxy "+envoy)
		c.expect([]string{"a"}, "10.0.1.2", "10.0.1.3")
		c.each(2, func(i int) { c.own(600 + i) })
		c.wantError(t, "kedify-proxy 10.0.1.2", "has not reported since it became ready, 2s ago")
	})
}

// A proxy that comes beside others has some time to report.
func TestProxyThatComesBesideOthers(t *testing.T) {
	c := busy()
	c.expect([]string{"a"}, envoy, "10.0.1.2")
	c.each(15, func(i int) {
		c.both(70 + i)
		c.wantRate(t, 20, 0.01)
	})
	c.pass(time.Second)
	c.both(86)
	c.wantError(t, "kedify-proxy 10.0.1.2", "has not reported since it became ready, 16s ago")
}

// A kedify-proxy of all namespaces that is silent makes the figures of those objects unknown
// that it has a share in, in whatever namespace.
func TestSilentProxyOfAnotherNamespace(t *testing.T) {
	c := busy()
	c.SetExpected([]string{"a"}, map[string][]string{"edge": {envoy}})
	c.each(60, func(i int) {
		c.own(70 + i)
		c.wantRate(t, 20, 0.01)
		c.wantConcurrency(t, 10)
	})
	c.each(60, func(i int) { c.own(130 + i) })
	c.wantError(t, "kedify-proxy "+envoy, "has not reported for 2m0s")
	if !c.Active(app, minute) {
		t.Error("want the object active: requests are known to be under way")
	}
	if _, err := c.Rate(figures.Key{Namespace: namespace, Name: "other"}, minute); err != nil {
		t.Errorf("another object has no requests there, but: %v", err)
	}
	c.both(190)
	c.wantRate(t, 20, 0.02)
}
