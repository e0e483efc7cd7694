package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// domainsOf returns the domains of a route configuration.
func domainsOf(rc *routev3.RouteConfiguration) map[string]bool {
	all := make(map[string]bool)
	for _, vh := range rc.GetVirtualHosts() {
		all[vh.GetName()] = true
	}
	return all
}

// gone ends the stream of the only Envoy, and waits until the server knows, so that later
// changes do not reach the Envoy.
func (w *world) gone(e *fake) {
	w.t.Helper()
	e.end()
	eventually(w.t, "the end of its stream", func() bool {
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		return len(w.server.streams) == 0
	})
}

// comesBackTo has an Envoy with n objects come back, to the same interceptor or to
// another, after the objects with the numbers bad changed to a form that the Envoy
// refuses for the first time. Once the Envoy has everything that it accepts, comesBackTo
// returns how many good domains are missing from each accepted configuration, and how
// many configurations the Envoy received.
func comesBackTo(t *testing.T, sotw, another bool, n int, bad ...int) (missing []int, pushes int) {
	t.Helper()
	w := newWorld(t, envoy.Options{})
	client := w.dialer()
	for _, name := range []string{"app", "canary"} {
		w.service(name, "10.0.0.1:80")
	}
	object := func(i int) string { return fmt.Sprintf("app%03d", i) }
	for i := range n {
		w.object(object(i), "app=80", "canary=20")
	}
	w.commit()
	e := newFake(t, client, sotw)
	e.run()
	e.has(w)
	w.gone(e)
	for _, i := range bad {
		w.object(object(i), "app=87", "canary=13")
	}
	w.commit()
	if another {
		w.server = newWorldLike(w)
		client = w.dialer()
	}
	e = e.again(client)
	good := make(map[string]bool)
	for i := range n {
		good[object(i)+".example.com"] = !slices.Contains(bad, i)
	}
	e.keeps = nil
	e.refuse = func(is proto.Message) string {
		rc, isRoutes := is.(*routev3.RouteConfiguration)
		if why := badSplit(is); !isRoutes || why != "" {
			return why
		}
		has, lacks := domainsOf(rc), 0
		for domain, isGood := range good {
			if isGood && !has[domain] {
				lacks++
			}
		}
		missing = append(missing, lacks)
		return ""
	}
	e.run()
	eventually(t, "told of those that are refused", func() bool { return w.server.refusals.objects() == len(bad) })
	eventually(t, "all others", func() bool {
		return locked(e, func() bool {
			has := domainsOf(e.routes)
			for domain, isGood := range good {
				if has[domain] != isGood {
					return false
				}
			}
			return true
		})
	})
	w.object(object(1), "app=99", "canary=1")       // a good object
	w.object(object(bad[0]), "app=100", "canary=0") // an abort, to a form that the Envoy accepts
	w.commit()
	eventually(t, "the next changes", func() bool {
		return e.split(object(1)+".example.com") == fmt.Sprintf("demo/%[1]s/app=99 demo/%[1]s/canary=1", object(1)) &&
			e.split(object(bad[0])+".example.com") == fmt.Sprintf("demo/%[1]s/app=100 demo/%[1]s/canary=0", object(bad[0]))
	})
	e.check()
	return locked(e, func() []int { return missing }), locked(e, func() int { return e.received[rds] })
}

// An Envoy comes back after one object changed to a form that it refuses for the
// first time. No other object is missing in any configuration that it accepts.
func TestFirstRefusalAfterAReconnectCostsNoOtherObject(t *testing.T) {
	for _, another := range []bool{false, true} {
		t.Run(map[bool]string{false: "same interceptor", true: "another interceptor"}[another], func(t *testing.T) {
			both(t, func(t *testing.T, sotw bool) {
				for _, tt := range []struct{ n, bad int }{{2, 0}, {3, 2}, {maxLeftOut, 0}, {maxLeftOut, 40}, {maxLeftOut, maxLeftOut - 1}} {
					if missing, _ := comesBackTo(t, sotw, another, tt.n, tt.bad); slices.Max(missing) != 0 {
						t.Errorf("of %d objects with number %d refused, accepted configurations lack %v others", tt.n, tt.bad, missing)
					}
				}
			})
		})
	}
}

// With more objects, the others of one group are missing until the object at fault is
// found in the group, after a bounded number of configurations.
func TestFirstRefusalOfManyObjectsCostsOneGroup(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		const n, group = 500, 8 // the whole of 500/64
		missing, pushes := comesBackTo(t, sotw, false, n, 333)
		if slices.Max(missing) >= group {
			t.Errorf("accepted configurations lack %v others; expected less than %d", missing, group)
		}
		// The first one, one for each group, the search in one group, and the changes.
		if most := 1 + maxLeftOut + 2*4 + 5; pushes > most {
			t.Errorf("%d configurations; expected %d at most", pushes, most)
		}
	})
}

// Several objects at fault are found, too.
func TestFirstRefusalOfSeveralObjects(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		for _, bad := range [][]int{{0, 2}, {3, 30, 63}, {8, 9}} {
			_, pushes := comesBackTo(t, sotw, false, 64, bad...)
			if most := 2 + maxLeftOut + 2*7*len(bad) + 5; pushes > most {
				t.Errorf("%d configurations for %v; expected %d at most", pushes, bad, most)
			}
		}
	})
}

// During the search, the object at fault changes to a form that the Envoy accepts: no
// domain is missing at any time.
func TestFirstRefusalIsOverInTheSearch(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		client := w.dialer()
		for _, name := range []string{"app", "canary"} {
			w.service(name, "10.0.0.1:80")
		}
		const n = 20
		for i := range n {
			w.object(fmt.Sprint("app", i), "app=80", "canary=20")
		}
		w.commit()
		e := newFake(t, client, sotw)
		e.run()
		e.has(w)
		w.gone(e)
		w.object("app9", "app=87", "canary=13") // the last in order
		w.commit()
		e = e.again(client)
		refusals := 0
		e.refuse = func(is proto.Message) string {
			why := badSplit(is)
			if why != "" {
				if refusals++; refusals == 3 {
					w.object("app9", "app=100", "canary=0") // an abort
					w.commit()
				}
			}
			return why
		}
		e.run()
		eventually(t, "the abort", func() bool { return e.split("app9.example.com") == "demo/app9/app=100 demo/app9/canary=0" })
		e.has(w)
		e.check()
		if refusals := locked(e, func() int { return refusals }); refusals > 5 {
			t.Errorf("%d configurations were refused; expected the abort among the first", refusals)
		}
		if got := strings.TrimSpace(w.told.objects()); got != "" {
			t.Errorf("told of %q", got)
		}
	})
}
