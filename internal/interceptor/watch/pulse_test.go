package watch

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// probed checks the health of a watch as a kubelet does, by the test's clock.
type probed struct {
	*world
	watching *Watch
	now      atomic.Int64
}

func (p *probed) after(d time.Duration) error {
	p.now.Add(int64(d))
	return p.watching.Healthy()
}

// through waits until the beat that was sent last has come through.
func (p *probed) through() {
	p.t.Helper()
	p.eventually("the beat comes through", func() bool { return len(p.watching.pulse.back) == 1 })
}

func probe(w *world, consumers ...Consumer) *probed {
	p := &probed{world: w}
	p.watching = w.start(Options{Consumers: consumers})
	p.watching.pulse.mu.Lock()
	defer p.watching.pulse.mu.Unlock()
	p.watching.pulse.now = func() time.Time { return time.Unix(0, p.now.Load()) }
	return p
}

// If a consumer hangs, or anything else on the way from a change to the Envoys,
// /healthz fails after a minute; when it goes on, /healthz succeeds again.
func TestAStuckFeedIsNotHealthy(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	var hang atomic.Bool
	hangs, release := make(chan struct{}), make(chan struct{})
	p := probe(w, ConsumerFunc(func(*routes.Table, routes.Changes) {
		if hang.CompareAndSwap(true, false) {
			close(hangs)
			<-release
		}
	}))
	w.becomes("a a:100:1")
	for range 20 {
		if err := p.after(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		p.through()
	}
	hang.Store(true) // before the next beat: no change of an object is needed
	if err := p.after(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	select {
	case <-hangs:
	case <-time.After(patience):
		t.Fatal("the beat does not come to the consumers")
	}
	for range 5 {
		if err := p.after(10 * time.Second); err != nil {
			t.Fatal("before the minute is over: ", err)
		}
	}
	for range 3 {
		if err := p.after(10 * time.Second); err == nil {
			t.Error("healthy, with a consumer that hangs")
		}
	}
	if n := w.log.count("goroutine profile"); n != 1 {
		t.Errorf("the log shows %d times where it hangs, want once", n)
	}
	close(release)
	p.through()
	if err := p.after(10 * time.Second); err != nil {
		t.Error("when it goes on: ", err)
	}
}

// An API server that is away does not fail /healthz, nor does a process that was
// frozen.
func TestWhatIsNotStuckIsHealthy(t *testing.T) {
	w := newWorld(t)
	w.api.stop()
	p := probe(w)
	many := func(when string) {
		t.Helper()
		for range 20 {
			if err := p.after(10 * time.Second); err != nil {
				t.Fatal(when, ": ", err)
			}
			p.through()
		}
	}
	many("before the first table")
	w.api.restart()
	w.becomes("")
	many("with a table")
	w.api.stop()
	many("while the API server is away")
	if err := p.after(time.Second); err != nil {
		t.Fatal(err)
	}
	// The process was frozen for an hour, and the probe is the first to run then.
	p.watching.pulse.mu.Lock()
	p.watching.pulse.back = make(chan struct{}, 1)
	p.watching.pulse.mu.Unlock()
	if err := p.after(time.Hour); err != nil {
		t.Error("after an hour in which nothing ran: ", err)
	}
}

// Changes that come faster than they are applied do not keep a table from being made.
func TestATableComesWhileChangesDoNotStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	made := make(chan struct{}, 1)
	options := &Options{Log: slog.New(slog.DiscardHandler), Consumers: []Consumer{ConsumerFunc(func(*routes.Table, routes.Changes) { made <- struct{}{} })}}
	changes := make(chan change, backlog)
	f := newFeed(options, newMetrics())
	for k := range f.synced {
		f.synced[k] = true
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app"}, Spec: corev1.ServiceSpec{Ports: make([]corev1.ServicePort, 1000)}}
	for range 4 {
		running.Go(func() {
			for {
				select {
				case changes <- change{kind: services, name: types.NamespacedName{Namespace: "demo", Name: "app"}, object: service}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for len(changes) < backlog {
		runtime.Gosched()
	}
	running.Go(func() { f.run(ctx, changes) })
	select {
	case <-made:
	case <-time.After(patience):
		t.Fatal("no table")
	}
}

// A busy feed, whose channel is full at each check, is healthy as long as it makes
// progress.
func TestABusyFeedIsHealthy(t *testing.T) {
	var now time.Time
	p := newPulse(make(chan change), slog.New(slog.DiscardHandler))
	p.now = func() time.Time { return now }
	after := func(d time.Duration) error { now = now.Add(d); return p.check() }
	for range 20 {
		if err := after(10 * time.Second); err != nil {
			t.Fatal("while it goes on: ", err)
		}
		p.passes.Add(1)
	}
	var err error
	for range 8 {
		err = after(10 * time.Second)
	}
	if err == nil {
		t.Error("healthy, with a full channel that nobody reads")
	}
}
