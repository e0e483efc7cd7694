package xds

import (
	"fmt"
	"math/bits"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// withoutProbes keeps all probes of a backoff from being sent while a test runs.
func withoutProbes(s *Server) { s.minBackoff = time.Hour }

// backsOff tells whether the only stream delays its probes.
func (w *world) backsOff() bool {
	for _, st := range w.server.connected() {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.routes.backoff.active()
	}
	return false
}

func (w *world) split(name string, weight int) {
	w.object(name, name+"=90", fmt.Sprint("canary=", weight))
}

// manyObjects makes n objects with a canary of 10 percent.
func (w *world) manyObjects(n int) (name func(int) string) {
	name = func(i int) string { return fmt.Sprintf("app%04d", i) }
	w.service("canary", "10.0.0.9:80")
	for i := range n {
		w.service(name(i), "10.0.0.1:80")
		w.split(name(i), 10)
	}
	w.commit()
	return name
}

// An Envoy that refuses everything gets few configurations more than the search for one
// object needs, and then one after each delay.
func TestEnvoyThatRefusesEverything(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		const n = 1000
		w := newWorld(t, envoy.Options{}, withoutProbes)
		e := newFake(t, w.dialer(), sotw)
		e.refuse = func(is proto.Message) string {
			if _, isRoutes := is.(*routev3.RouteConfiguration); isRoutes {
				return "no"
			}
			return ""
		}
		w.manyObjects(n)
		e.run()
		eventually(t, "the backoff", w.backsOff)
		if got, most := locked(e, func() int { return e.received[rds] }), bits.Len(n)+spareRefusals+5; got > most {
			t.Errorf("%d configurations were sent; expected %d at most", got, most)
		}
	})
	in := 0
	for delay, beyond := time.Duration(0), 1; delay < time.Minute; beyond++ {
		delay += delayAfter(beyond, minBackoff)
		in++
	}
	if in > 6 {
		t.Errorf("%d probes in the first minute of a backoff", in)
	}
	if got := delayAfter(1000, minBackoff); got != maxBackoff {
		t.Errorf("the longest delay is %v", got)
	}
}

// While the server backs off from an Envoy, objects that change are sent at once.
func TestChangesAreSentDuringABackoff(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		const n = 200
		w := newWorld(t, envoy.Options{}, withoutProbes)
		e := newFake(t, w.dialer(), sotw)
		e.refuse = badSplit
		name := w.manyObjects(n)
		e.run()
		e.has(w)
		for i := range n - 1 {
			w.split(name(i), 13)
		}
		w.commit()
		eventually(t, "the backoff", w.backsOff)
		for i, weight := range map[int]int{n - 1: 30, n - 2: 0} { // one that was not refused, and an abort of one that was
			w.split(name(i), weight)
			w.commit()
			eventually(t, "the new split of "+name(i), func() bool {
				return e.split(name(i)+".example.com") == fmt.Sprintf("demo/%[1]s/%[1]s=90 demo/%[1]s/canary=%d", name(i), weight)
			})
		}
		if !w.backsOff() {
			t.Error("the backoff has ended")
		}
		e.check()
	})
}

// Objects that an Envoy refuses among many others are found without any delay, also if
// they are neighbours.
func TestObjectsAreFoundWithoutBackoff(t *testing.T) {
	for what, bad := range map[string]func(i int) bool{
		"one":            func(i int) bool { return i == 333 },
		"thirty":         func(i int) bool { return i%33 == 5 },
		"ten neighbours": func(i int) bool { return i >= 490 && i < 500 },
	} {
		t.Run(what, func(t *testing.T) {
			const n = 1000
			w := newWorld(t, envoy.Options{}, withoutProbes)
			e := newFake(t, w.dialer(), false)
			e.refuse = badSplit
			name := w.manyObjects(n)
			e.run()
			e.has(w)
			for i := range n {
				if bad(i) {
					w.split(name(i), 13)
				} else {
					w.split(name(i), 20)
				}
			}
			w.commit()
			for i := range n {
				if bad(i) {
					continue
				}
				eventually(t, "the new split of "+name(i), func() bool {
					return e.split(name(i)+".example.com") == fmt.Sprintf("demo/%[1]s/%[1]s=90 demo/%[1]s/canary=20", name(i))
				})
			}
			e.check()
		})
	}
}
