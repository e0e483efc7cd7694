package figures_test

import (
	"math"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

// An interceptor that is reached late makes no hole: what it counted before is not known.
func TestInterceptorThatIsReachedLate(t *testing.T) {
	c := start([]string{"a"}, envoy)
	c.pass(8 * time.Second)
	for i := range 5 {
		c.both(100 + i)
		c.pass(time.Second)
	}
	c.wantRate(t, 20, 0.01)
}

// An Envoy may have moved to a new interceptor before the scaler reaches that. What it
// counted meanwhile is not known.
func TestEnvoyThatMovedToANewInterceptor(t *testing.T) {
	c := busy()
	c.expect([]string{"b"}, envoy)
	c.Disconnected("a")
	c.pass(6 * time.Second)
	for i := range 6 {
		c.Apply("b", loadreport.Message{Sources: []loadreport.Source{source("b", "", 10*i, 0, 0), source("lrs2", envoy, 60+10*i, 0, 0)}})
		c.pass(time.Second)
	}
	// That of a has aged by 11 s, b began to be known 6 s after it came.
	c.wantRate(t, 10+10*49./60+50./54, 0.01)
}

// An interceptor that was out of the EndpointSlices for some time makes no spike when it
// comes back, whatever it has counted.
func TestInterceptorThatComesBack(t *testing.T) {
	c := busy()
	c.expect([]string{"b"})
	c.Disconnected("a")
	c.each(30, func(int) { c.Apply("b", loadreport.Message{}) })
	c.wantRate(t, 2*10*30./60, 0.02)
	c.expect([]string{"a"}, envoy)
	c.both(1e6)
	c.wantConcurrency(t, 10)
	// The interceptor had none beside b; the kedify-proxy, which had no other, may have.
	c.wantRate(t, 10*30./60+10, 0.02)
	c.each(15, func(i int) { c.both(1e6 + i) })
	c.wantRate(t, 10*30./60+10, 0.02)
}

// A kedify-proxy may leave while the scaler cannot reach the interceptor that it reports to.
func TestKedifyProxyThatLeavesUnseen(t *testing.T) {
	c := busy()
	c.Disconnected("a")
	c.expect([]string{"a"})
	c.wantConcurrency(t, 5)
	c.pass(time.Second)
	c.both(71)
	c.wantRate(t, 20, 0.02)
	c.wantConcurrency(t, 10)
}

// A kedify-proxy that was out of its EndpointSlices and silent had no requests, if there
// were others. If there were none, it may have had some.
func TestKedifyProxyThatComesBack(t *testing.T) {
	for _, tt := range []struct {
		others []string
		want   float64
	}{
		{[]string{"10.0.1.2"}, 10 + 10*30./60},
		{nil, 10 + 10},
	} {
		c := busy()
		c.Apply("a", loadreport.Message{Sources: []loadreport.Source{{ID: "lrs", Address: envoy, Ended: true}}})
		c.expect([]string{"a"}, tt.others...)
		with := func(own int, more ...loadreport.Source) {
			for _, other := range tt.others {
				more = append(more, source("other", other, 0, 0, 0))
			}
			c.Apply("a", loadreport.Message{Sources: append(more, source("own", "", own, 0, 0))})
		}
		c.each(30, func(i int) { with(10 * (70 + i)) })
		c.expect([]string{"a"}, append(tt.others, envoy)...)
		c.pass(time.Second)
		with(1010, source("lrs2", envoy, 10, 0, 0))
		c.wantRate(t, tt.want, 0.02)
	}
}

// While the Service of the interceptors is away, their requests are not known. They are
// when it is back, and are never taken for none.
func TestServiceOfInterceptorsMadeAgain(t *testing.T) {
	for _, away := range []int{2, 30, 90, 400} {
		c := start([]string{"a"})
		c.own(0)
		c.each(120, func(i int) { c.own(i) })
		c.expect(nil)
		c.Disconnected("a")
		c.wantError(t, "no interceptor is ready")
		c.each(away, func(int) {})
		c.expect([]string{"a"})
		c.each(12, func(i int) {
			c.own(120 + away + i)
			if rate, err := c.Rate(app, minute); err == nil && math.Abs(rate-10) > 0.2 || err != nil && i > 2 {
				t.Errorf("away for %d s, back for %d: the rate is %v (%v), want 10", away, i, rate, err)
			}
		})
	}
}

// An Envoy that moved away from an interceptor that hangs is not counted at both.
func TestEnvoyThatMovedFromAnInterceptorThatHangs(t *testing.T) {
	c := start([]string{"a", "b"}, envoy)
	c.both(1)
	c.Apply("b", loadreport.Message{})
	c.pass(time.Second)
	c.both(2)
	c.pass(time.Second)
	c.Apply("b", message("lrs2", envoy, 10, 5, 0))
	c.Disconnected("a")
	c.wantConcurrency(t, 10)
}

// An Envoy that reports each 10 s tells more when it opens another stream.
func TestEnvoyThatReportsSeldom(t *testing.T) {
	c := start([]string{"a"}, envoy)
	c.each(90, func(i int) {
		if c.own(i); i%10 == 0 {
			c.both(i)
		}
	})
	c.each(14, func(i int) { c.own(90 + i) })
	c.Apply("a", message("lrs2", envoy, 140, 0, 0))
	c.wantRate(t, 20, 0.02)
}

// Two that ask for an object with different windows have each their own.
func TestTwoWindowsAtATime(t *testing.T) {
	short := figures.Window{Length: 5 * time.Second, Granularity: 500 * time.Millisecond}
	c := start([]string{"a"})
	c.own(0)
	c.each(100, func(int) { c.Apply("a", message("own", "", 0, 0, 0)) })
	c.pass(time.Second)
	c.Apply("a", message("own", "", 6, 0, 0))
	c.each(55, func(i int) {
		c.Apply("a", message("own", "", 6, 0, 0))
		if active := c.Active(app, short); i < 4 && !active || i > 6 && active {
			t.Errorf("after %d s, active in 5 s is %v", i, active)
		}
		c.wantRate(t, 0.1, 0.01)
	})
}
