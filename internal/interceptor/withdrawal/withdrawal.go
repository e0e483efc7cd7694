package withdrawal

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
)

// Options are what a Withdrawal needs of the interceptor. The functions may be called by
// any goroutine.
type Options struct {
	// Timeout is how long the API server may be unseen; 4 s or more. With 0 the
	// interceptor never withdraws.
	Timeout time.Duration
	// LastSeen returns when the API server was last seen; zero for never. While it is
	// seen, the time advances at least every Renew(Timeout).
	LastSeen func() time.Time
	// Others returns the addresses of the other interceptors, and Port is their admin
	// port.
	Others func() []netip.Addr
	Port   uint16
	// Serving tells whether there is a table, and no drain.
	Serving func() bool
	// Withdraw sends Envoys and clients away, and Resume takes them again. Both return at
	// once.
	Withdraw, Resume func()
	Log              *slog.Logger
}

// Renew returns how often the watches are to be renewed, in whole seconds; 0 is for as
// client-go does it.
func Renew(timeout time.Duration) time.Duration { return (timeout / 4).Truncate(time.Second) }

// Withdrawal takes an interceptor out of service, and back. It is a
// prometheus.Collector, and the http.Handler for Path.
type Withdrawal struct {
	options Options
	client  *http.Client
	begun   time.Time
	// period is the time between two decisions.
	period    time.Duration
	withdrawn atomic.Bool
	// seenSince is nil while the API server is not seen. Run writes it.
	seenSince atomic.Pointer[time.Time]
	told      bool // the log has been told that no other interceptor sees the API server
}

// New makes a Withdrawal, which does nothing before Run.
func New(options Options) *Withdrawal {
	return &Withdrawal{options: options, client: newClient(), begun: time.Now(), period: options.Timeout / 20}
}

// Run decides again and again, until ctx ends. It is to be called once.
func (w *Withdrawal) Run(ctx context.Context) {
	if w.options.Timeout == 0 {
		return
	}
	tick := time.NewTicker(w.period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.step(ctx)
		}
	}
}

func (w *Withdrawal) step(ctx context.Context) {
	c, was := w.contact(time.Now()), w.withdrawn.Load()
	best, at := unavailable, netip.Addr{}
	if was || c.lost {
		best, at = w.ask(ctx)
	}
	is := withdraw(was, c, best)
	w.withdrawn.Store(is)
	switch {
	case is && !was:
		w.options.Log.Warn(fmt.Sprintf("the API server has not been seen for %v, and another interceptor sees it: kedify-proxies are sent there, and /readyz fails until it is seen again. Check the network from this pod, and its node, to the API server", w.options.Timeout),
			"interceptor", at.String())
		w.options.Withdraw()
	case was && !is:
		if c.sees {
			w.options.Log.Info("the API server is seen again: kedify-proxies are taken again")
		} else {
			w.options.Log.Warn("no other interceptor serves: kedify-proxies are taken again, and get what was known when the API server was lost")
		}
		w.options.Resume()
	case c.lost && !is && !w.told:
		w.options.Log.Warn(fmt.Sprintf("the API server has not been seen for %v, and no other interceptor sees it: what is known is served on", w.options.Timeout),
			"others", len(w.options.Others()))
	}
	w.told = c.lost
}

// contact returns how the API server is seen now.
func (w *Withdrawal) contact(now time.Time) contact {
	if !w.sees(now) {
		w.seenSince.Store(nil)
		return contact{lost: w.unseen(now) > w.options.Timeout}
	}
	w.seenSince.CompareAndSwap(nil, &now)
	return contact{sees: w.seenFor(now, w.period), steady: w.seenFor(now, w.options.Timeout)}
}

// unseen returns the time since the API server was last seen, or since the start.
func (w *Withdrawal) unseen(now time.Time) time.Duration {
	return min(now.Sub(w.options.LastSeen()), now.Sub(w.begun))
}

// sees tells whether the API server was seen lately. This is well within the timeout: if
// all interceptors lose the API server at once, none tells the first one that asks that it
// still sees it.
func (w *Withdrawal) sees(now time.Time) bool {
	return now.Sub(w.options.LastSeen()) < w.options.Timeout/2
}

// longestWatch is how long a watch lasts that is not renewed, and the next one takes to begin.
const longestWatch = 11 * time.Minute

// Lost says that the API server is not seen, and since when. It is empty if it was seen
// lately: without a timeout, which has the watches renewed, within longestWatch.
func (w *Withdrawal) Lost() string {
	now, at := time.Now(), w.options.LastSeen()
	switch {
	case at.IsZero():
		return "the API server has not answered yet"
	case w.sees(now), w.options.Timeout == 0 && now.Sub(at) < longestWatch:
		return ""
	}
	return "the API server has not been seen since " + at.UTC().Format(time.RFC3339)
}

// seenFor tells whether the API server has been seen for this long without a break.
func (w *Withdrawal) seenFor(now time.Time, long time.Duration) bool {
	since := w.seenSince.Load()
	return since != nil && now.Sub(*since) >= long && w.sees(now)
}

// state returns what the others are told. When all see the API server again after an
// outage, the first to do so is not yet current: they must not all withdraw in its favour.
func (w *Withdrawal) state() state {
	switch {
	case w.withdrawn.Load() || !w.options.Serving():
		return unavailable
	case w.seenFor(time.Now(), w.options.Timeout/4):
		return current
	default:
		return stale
	}
}

// ServeHTTP answers another interceptor that asks, or anybody else.
func (w *Withdrawal) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	a := answer{State: stateNames[w.state()]}
	if at := w.options.LastSeen(); !at.IsZero() {
		a.LastSeen = &at
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(a) // nothing to do for a client that is gone
}

// Limits returns how near the interceptor is to asking the others.
func (w *Withdrawal) Limits() []usage.Limit {
	return []usage.Limit{{Name: "api-server-timeout", Used: w.unseen(time.Now()).Seconds(), Max: w.options.Timeout.Seconds()}}
}

var withdrawnDesc = prometheus.NewDesc("interceptor_withdrawn",
	"1 while kedify-proxies are sent to another interceptor, because this one has lost the API server.",
	// See [how](requests.md#an-interceptor-loses-the-api-server).
	nil, nil)

// Describe is part of prometheus.Collector.
func (w *Withdrawal) Describe(descs chan<- *prometheus.Desc) { descs <- withdrawnDesc }

// Collect is part of prometheus.Collector.
func (w *Withdrawal) Collect(collected chan<- prometheus.Metric) {
	withdrawn := 0.0
	if w.withdrawn.Load() {
		withdrawn = 1
	}
	collected <- prometheus.MustNewConstMetric(withdrawnDesc, prometheus.GaugeValue, withdrawn)
}
