package figures_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

func TestWindowValidate(t *testing.T) {
	for _, tt := range []struct {
		window figures.Window
		want   string // in the error; none if empty
	}{
		{figures.DefaultWindow, ""},
		{figures.Window{Length: time.Hour, Granularity: 3600 * time.Millisecond}, ""},
		{figures.Window{Length: time.Second, Granularity: time.Second}, ""},
		{figures.Window{Length: time.Second, Granularity: time.Millisecond}, ""},
		{figures.Window{Granularity: time.Second}, "window is 0s: set it above 0"},
		{figures.Window{Length: -time.Minute, Granularity: time.Second}, "window is -1m0s"},
		{figures.Window{Length: 61 * time.Minute, Granularity: time.Minute}, "up to 1h0m0s"},
		{figures.Window{Length: time.Minute}, "granularity is 0s: set it above 0"},
		{figures.Window{Length: time.Minute, Granularity: 2 * time.Minute}, "up to window, 1m0s"},
		{figures.Window{Length: time.Hour, Granularity: time.Second}, "set granularity to 3.6s or more"},
	} {
		err := tt.window.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.window, err, tt.want)
		}
	}
}

// Each object has the window that is asked for, and may be asked for another any time: the
// rate of a steady load is the same.
func TestWindows(t *testing.T) {
	windows := []figures.Window{
		{Length: time.Minute, Granularity: time.Second},
		{Length: 5 * time.Minute, Granularity: 5 * time.Second},
		{Length: 10 * time.Second, Granularity: 100 * time.Millisecond},
		{Length: 7 * time.Second, Granularity: 3 * time.Second},
		{Length: time.Hour, Granularity: time.Minute},
		{Length: 2 * time.Second, Granularity: 2 * time.Second},
	}
	c := start([]string{"a"})
	c.own(0)
	c.each(900, func(i int) {
		c.own(i)
		w := windows[i/20%len(windows)]
		if rate, err := c.Rate(app, w); i > 2 && (err != nil || rate < 9.7 || rate > 10.3) {
			t.Fatalf("after %d s, the rate in %v is %v (%v), want 10", i, w, rate, err)
		}
		if !c.Active(app, w) {
			t.Errorf("after %d s, the object is not active in %v", i, w)
		}
	})
}

// A window of an hour keeps its requests beside one of a minute, though no ring has an hour in
// seconds.
func TestWindowsThatTogetherHaveTooManySlices(t *testing.T) {
	hour := figures.Window{Length: time.Hour, Granularity: 4 * time.Second}
	c := start([]string{"a"})
	c.own(0)
	requests := 0
	c.each(7200, func(i int) {
		if i%300 == 0 {
			requests += 30
		}
		c.Apply("a", message("own", "", requests, 0, 0))
		if i%30 != 0 {
			return
		}
		if _, err := c.Rate(app, minute); err != nil {
			t.Fatal(err)
		}
		if rate, err := c.Rate(app, hour); i > 4000 && (err != nil || rate < 0.09 || rate > 0.11 || !c.Active(app, hour)) {
			t.Errorf("after %d s, the rate of an hour is %v (%v), want 0.1", i, rate, err)
		}
	})
}

// A window that is made longer while a proxy is silent goes on with its last figure.
func TestLongerWindowWhileAProxyIsSilent(t *testing.T) {
	for _, silent := range []int{10, 40, 70, 110} {
		c := busy()
		c.wantRate(t, 20, 0.01)
		c.each(silent, func(i int) { c.own(70 + i) })
		longer := figures.Window{Length: 5 * time.Minute, Granularity: time.Second}
		if rate, err := c.Rate(app, longer); err != nil || rate < 19.8 || rate > 20.2 || !c.Active(app, longer) {
			t.Errorf("silent for %d s: the rate is %v (%v), want 20", silent, rate, err)
		}
	}
}

// A request is in the window for its length, and no longer.
func TestRequestAgesOut(t *testing.T) {
	for _, w := range []figures.Window{
		{Length: time.Minute, Granularity: time.Second},
		{Length: 10 * time.Second, Granularity: 10 * time.Second},
		{Length: 5 * time.Minute, Granularity: time.Minute},
	} {
		c := start([]string{"a"})
		c.own(0)
		c.each(400, func(int) { c.Apply("a", message("own", "", 0, 0, 0)) })
		if c.Active(app, w) {
			t.Errorf("%v: the object is active before any request", w)
		}
		c.pass(time.Second)
		c.Apply("a", message("own", "", 1, 0, 0))
		for age := time.Duration(0); age < w.Length+2*w.Granularity+time.Second; age += time.Second {
			active := c.Active(app, w)
			if age < w.Length-time.Second && !active || age > w.Length+w.Granularity && active {
				t.Errorf("%v: after %v, active is %v", w, age, active)
			}
			c.pass(time.Second)
			c.Apply("a", message("own", "", 1, 0, 0))
		}
	}
}
