package traffictest

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// Load is a steady load of requests through a proxy.
type Load struct {
	*traffic.Load

	t     testing.TB
	proxy Proxy
	host  string
	// samples are the answers to additional requests, which were sent to judge shares.
	samples []traffic.Answer
}

// sampleConnections is the number of parallel connections for a sample whose order does
// not matter.
const sampleConnections = 16

// StartLoad sends requests for a host, one at a time, on four connections in
// turn, so that the order in which the proxy gets them is known, until the test
// ends.
func StartLoad(t testing.TB, p Proxy, host string) *Load {
	t.Helper()
	return StartLoadAt(t, p, host, 300)
}

// StartLoadAt is StartLoad with rate requests a second.
func StartLoadAt(t testing.TB, p Proxy, host string, rate float64) *Load {
	t.Helper()
	return start(t, p, traffic.Options{Host: host, Rate: rate, Connections: 4, InTurn: true})
}

// StartLoadWith is StartLoadAt with a header in each request.
func StartLoadWith(t testing.TB, p Proxy, host string, rate float64, header http.Header) *Load {
	t.Helper()
	return start(t, p, traffic.Options{Host: host, Rate: rate, Connections: 4, InTurn: true, Header: header})
}

// StartParallelLoad sends requests for a host on eight connections at a time.
func StartParallelLoad(t testing.TB, p Proxy, host string) *Load {
	t.Helper()
	return StartParallelLoadAt(t, p, host, 300)
}

// StartParallelLoadAt sends so many requests a second on eight connections at a time. It keeps
// its rate where StartLoadAt, which has one request under way at a time, falls behind.
func StartParallelLoadAt(t testing.TB, p Proxy, host string, rate float64) *Load {
	t.Helper()
	return start(t, p, traffic.Options{Host: host, Rate: rate, Connections: 8})
}

// StartCallers sends requests for a host, each on a connection of its own: a Service
// chooses a pod anew for each.
func StartCallers(t testing.TB, p Proxy, host string) *Load {
	t.Helper()
	return start(t, p, traffic.Options{Host: host, Rate: 100, NewConnections: true})
}

// requestPatience is how long a request of a load may take.
const requestPatience = 30 * time.Second

func start(t testing.TB, p Proxy, o traffic.Options) *Load {
	t.Helper()
	return startAt(t, p, "/color", o)
}

func startAt(t testing.TB, p Proxy, path string, o traffic.Options) *Load {
	t.Helper()
	o.Target = p.Address
	o.Path = p.Prefix + path
	o.Timeout = requestPatience
	l, err := traffic.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Stop() })
	return &Load{Load: l, t: t, proxy: p, host: o.Host}
}

// sample returns the answers to count requests that are sent from now on. If ordered is
// true, they are requests of the load; otherwise they are additional ones, sent as fast
// as they are answered, which Finish judges like those of the load.
func (l *Load) sample(count int, ordered bool) []traffic.Answer {
	l.t.Helper()
	if ordered {
		return l.Next(count)
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), e2etest.Patience)
	defer cancel()
	answers, err := traffic.Send(ctx, traffic.Options{
		Target: l.proxy.Address, Host: l.host, Connections: sampleConnections, Timeout: requestPatience,
		Path: l.proxy.Prefix + "/", Backend: pageColour,
	}, count)
	if err != nil {
		l.t.Fatal(err)
	}
	l.samples = append(l.samples, answers...)
	return answers
}

// Next waits until count requests that are sent from now on are answered, and returns
// the answers.
func (l *Load) Next(count int) []traffic.Answer {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), e2etest.Patience)
	defer cancel()
	answers, err := l.Await(ctx, l.Mark(), count)
	if err != nil {
		l.t.Fatal(err)
	}
	return answers
}

var titleOf = regexp.MustCompile(`<title>([a-z]+)</title>`)

// pageColour reads the colour from the page that argoproj/rollouts-demo serves at /.
// This is the only answer that it does not log; logging would be a third of the work of
// a sample.
func pageColour(_ http.Header, body []byte) (string, error) {
	title := titleOf.FindSubmatch(body)
	if title == nil {
		return "", fmt.Errorf("the answer is no page with a colour for its title: %q", body)
	}
	return string(title[1]), nil
}

// RequireShare is RequireShare for requests from now on.
func (l *Load) RequireShare(backend string, weight int) {
	l.t.Helper()
	RequireShare(l.t, l.proxy, backend, weight, l.sample)
}

// AwaitShare waits until a backend gets its share, as RequireShare means it.
func (l *Load) AwaitShare(backend string, weight int) {
	l.t.Helper()
	l.AwaitShareWithin(backend, weight, Margin)
}

// AwaitShareWithin is AwaitShare with a margin, like RequireShareWithin.
func (l *Load) AwaitShareWithin(backend string, weight, margin int) {
	l.t.Helper()
	e2etest.Eventually(l.t, e2etest.Patience, fmt.Sprintf("%s has a share of %d", backend, weight), func(context.Context) error {
		return l.proxy.CheckShare(l.t, backend, weight, margin, l.sample)
	})
}

// RequireOnly fails the test unless all of the next requests are answered by one
// backend.
func (l *Load) RequireOnly(backend string) {
	l.t.Helper()
	if err := traffic.CheckSmooth(l.Next(100), backend, 100); err != nil {
		l.t.Error(err)
	}
}

// Finish ends the load. It fails the test for each request, of the load and of its
// samples, that has failed, unless allowed returns true for it, and for each that was
// answered by a backend other than these. A nil allowed allows no failure.
func (l *Load) Finish(allowed func(traffic.Answer) bool, backends ...string) {
	l.t.Helper()
	known := map[string]bool{}
	for _, b := range backends {
		known[b] = true
	}
	answers := append(l.Stop(), l.samples...)
	counts := traffic.Count(answers)
	tolerated, shown := 0, 0
	for _, a := range answers {
		switch {
		case a.Failed() && allowed != nil && allowed(a):
			if tolerated++; tolerated <= 20 {
				l.t.Logf("%s: allowed to fail: %s", l.proxy.Name, a)
			}
		case a.Failed() || !known[a.Backend]:
			if shown++; shown <= 20 {
				l.t.Errorf("%s: %s", l.proxy.Name, a)
			}
		}
	}
	if shown > 0 {
		l.t.Errorf("%s: %d of %d requests failed or went astray", l.proxy.Name, shown, len(answers))
	}
	l.t.Logf("%s: %d requests, %v, %d failed, %d of them allowed to; the slowest took %s",
		l.proxy.Name, counts.Requests, counts.Backends, len(counts.Failed), tolerated, counts.Slowest.Round(time.Millisecond))
}

// AwaitBoth waits until both backends have answered requests that are
// sent from now on.
func (l *Load) AwaitBoth(one, other string) {
	l.t.Helper()
	mark := l.Mark()
	e2etest.Eventually(l.t, e2etest.Patience, "answers of "+one+" and "+other, func(context.Context) error {
		counts := traffic.Count(l.Since(mark))
		if counts.Backends[one] == 0 || counts.Backends[other] == 0 {
			return fmt.Errorf("so far: %v", counts.Backends)
		}
		return nil
	})
}
