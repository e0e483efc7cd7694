package xds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// Whatever changes, no route names a cluster that has no endpoints assigned, and no
// cluster is removed while a route names it.
func TestOrderUnderRandomChanges(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{}, func(s *Server) { s.settings.Linger = 0 })
		client := w.dialer()
		for i := range 6 {
			w.service(fmt.Sprint("app", i), fmt.Sprintf("10.0.0.%d:80", i+1))
		}
		w.commit()
		envoys := []*fake{newFake(t, client, sotw), newFake(t, client, sotw)}
		for _, e := range envoys {
			e.run()
		}
		random := rand.New(rand.NewPCG(1, 2))
		for step := range 2000 {
			i := random.IntN(6)
			name, other := fmt.Sprint("app", i), fmt.Sprint("app", random.IntN(6))
			switch random.IntN(6) {
			case 0:
				w.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: name})
			case 1:
				w.object(name)
			case 2:
				w.service(name, fmt.Sprintf("10.0.%d.%d:80", step/250, step%250+1))
			case 3:
				w.serviceIn("demo", name, []string{"", "kubernetes.io/h2c"}[random.IntN(2)], "10.0.0.1:80")
			default:
				if other != name {
					w.object(name, name+"=50", fmt.Sprint(other, "=", random.IntN(100)))
				}
			}
			w.commit()
			if step%100 == 0 {
				envoys[0].has(w)
			}
		}
		for _, e := range envoys {
			e.has(w)
			e.check()
		}
	})
}

// A virtual host waits for its clusters; all others are updated meanwhile.
func TestVirtualHostWaitsForItsClusters(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		e := newFake(t, w.dialer(), sotw)
		for _, name := range []string{"a", "b", "canary"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("a")
		w.object("b")
		w.commit()
		e.deaf["demo/a/canary"] = true
		e.run()
		e.has(w)

		w.object("a", "a=50", "canary=50")
		w.object("b", "b=50", "canary=50")
		w.commit()
		eventually(t, "b split", func() bool { return e.split("b.example.com") == "demo/b/b=50 demo/b/canary=50" })
		if got := e.split("a.example.com"); got != "demo/a/a" {
			t.Errorf("a, whose canary has no endpoints assigned, is served by %s", got)
		}
		// With another change, the Envoy subscribes to these endpoints after all.
		locked(e, func() bool { delete(e.deaf, "demo/a/canary"); return true })
		w.object("b", "b=10", "a=40", "canary=50")
		w.commit()
		e.has(w)
		e.check()
	})
}

func TestOneResourceForOneChange(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		e := newFake(t, w.dialer(), sotw)
		for _, name := range []string{"a", "b", "c"} {
			w.service(name, "10.0.0.1:80")
			w.object(name)
		}
		w.object("a", "a=50", "b=50")
		w.commit()
		e.run()
		e.has(w)
		for _, step := range []struct {
			what   string
			change func()
			want   [kinds]int
			done   func() bool
		}{
			{"weights", func() { w.object("a", "a=40", "b=60") }, [kinds]int{rds: 1},
				func() bool { return e.split("a.example.com") == "demo/a/a=40 demo/a/b=60" }},
			{"endpoints", func() { w.service("c", "10.0.0.2:80") }, [kinds]int{eds: 1},
				func() bool { return locked(e, func() bool { return e.resources[eds] > 0 }) }},
			{"no endpoint", func() { w.service("c") }, [kinds]int{eds: 1},
				func() bool { return locked(e, func() bool { return e.resources[eds] > 0 }) }},
			{"nothing", func() { w.object("a", "a=40", "b=60") }, [kinds]int{}, func() bool { return true }},
		} {
			locked(e, func() bool { e.resources = [kinds]int{}; return true })
			step.change()
			w.commit()
			eventually(t, step.what, step.done)
			if got := locked(e, func() [kinds]int { return e.resources }); got != step.want {
				t.Errorf("%s: resources were sent %v; expected %v (of %v)", step.what, got, step.want, kindNames)
			}
		}
		e.has(w)
	})
}

// badSplit refuses configurations with a weight of 13, and does not say which object has
// it.
func badSplit(is proto.Message) string {
	rc, isRoutes := is.(*routev3.RouteConfiguration)
	if !isRoutes {
		return ""
	}
	for _, vh := range rc.GetVirtualHosts() {
		for _, r := range vh.GetRoutes() {
			for _, c := range r.GetRoute().GetWeightedClusters().GetClusters() {
				if c.GetWeight().GetValue() == 13 {
					return "something is\nwrong"
				}
			}
		}
	}
	return ""
}

func TestRefusedObjectsAreFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		bad  []int
	}{
		{"one", []int{5}},
		{"first and last", []int{0, 31}},
		{"three neighbours", []int{15, 16, 17}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, sotw bool) {
				w := newWorld(t, envoy.Options{})
				e := newFake(t, w.dialer(), sotw)
				e.refuse = badSplit
				w.service("canary", "10.0.0.9:80")
				const n = 32
				name := func(i int) string { return fmt.Sprintf("app%02d", i) }
				for i := range n {
					w.service(name(i), "10.0.0.1:80")
					w.object(name(i), name(i)+"=90", "canary=10")
				}
				w.commit()
				e.run()
				e.has(w)
				want := ""
				bad := make(map[int]bool)
				for _, i := range tt.bad {
					bad[i] = true
				}
				for i := range n {
					weight := 20
					if bad[i] {
						weight = 13
						want += " " + name(i)
					}
					w.object(name(i), name(i)+"=90", fmt.Sprint("canary=", weight))
				}
				w.commit()
				for i := range n {
					weight := 20
					if bad[i] {
						weight = 10
					}
					eventually(t, "the new split of "+name(i), func() bool {
						return e.split(name(i)+".example.com") == fmt.Sprintf("demo/%[1]s/%[1]s=90 demo/%[1]s/canary=%d", name(i), weight)
					})
				}
				eventually(t, "told of"+want, func() bool { return " "+sorted(w.told.objects()) == want })
				if got := locked(e, func() int { return e.received[rds] }); got > 3+len(tt.bad)*2*6 {
					t.Errorf("%d configurations were sent to find %d of %d", got, len(tt.bad), n)
				}

				eventually(t, "a version that names them", func() bool {
					return locked(e, func() bool {
						return !slices.ContainsFunc(tt.bad, func(i int) bool { return !strings.Contains(fmt.Sprint(e.versions[rds]), name(i)) })
					})
				})

				// Refused forms are not sent again; an object that changes is tried
				// again.
				sent := locked(e, func() int { return e.received[rds] })
				w.object("app20", "app20=90", "canary=30")
				w.commit()
				eventually(t, "another change", func() bool {
					return e.split("app20.example.com") == "demo/app20/app20=90 demo/app20/canary=30"
				})
				if got := locked(e, func() int { return e.received[rds] }); got != sent+1 {
					t.Errorf("%d configurations were sent for one change", got-sent)
				}
				for _, i := range tt.bad {
					w.object(name(i), name(i)+"=90", "canary=14")
				}
				w.commit()
				e.has(w)
				eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
				e.check()
			})
		})
	}
}

// An object that is refused and has no accepted form is left out; the other objects of
// its virtual host are served.
func TestRefusedObjectBesideOthers(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	e := newFake(t, w.dialer(), false)
	e.refuse = badSplit
	for _, name := range []string{"a", "b"} {
		w.service(name, "10.0.0.1:80")
	}
	w.object("a")
	w.commit()
	e.run()
	e.has(w)
	w.objectIn("demo", "new", onHost("a.example.com", "/new"), "a=87", "b=13")
	w.commit()
	eventually(t, "told of it", func() bool { return w.told.objects() == "new" })
	w.object("a", "a=50", "b=50")
	w.commit()
	eventually(t, "its neighbour's change", func() bool { return e.split("a.example.com") == "demo/a/a=50 demo/a/b=50" })
	w.objectIn("demo", "new", onHost("a.example.com", "/new"), "a=88", "b=12")
	w.commit()
	e.has(w)
	eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
}

func TestRefusedCluster(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		e := newFake(t, w.dialer(), sotw)
		e.refuse = func(is proto.Message) string {
			if c, isCluster := is.(*clusterv3.Cluster); isCluster && c.GetName() == "demo/bad/bad" && isHTTP2(c) {
				return "no"
			}
			return ""
		}
		for _, name := range []string{"a", "bad", "bad-too"} {
			w.service(name, "10.0.0.1:80")
			w.object(name)
		}
		w.commit()
		e.run()
		e.has(w)
		for _, name := range []string{"a", "bad", "bad-too"} {
			w.serviceIn("demo", name, "kubernetes.io/h2c", "10.0.0.1:80")
		}
		w.commit()
		eventually(t, "told of it", func() bool { return w.told.objects() == "bad" })
		sent := locked(e, func() int { return e.received[cds] })
		// A change of endpoints is no reason to send the refused cluster again.
		w.serviceIn("demo", "bad", "kubernetes.io/h2c", "10.0.0.2:80")
		w.commit()
		eventually(t, "the endpoint", func() bool {
			return locked(e, func() bool { return strings.Contains(e.assignments["demo/bad/bad"].String(), "10.0.0.2") })
		})
		w.object("a", "a=50", "bad=50")
		w.commit()
		e.has(w)
		if got := locked(e, func() int { return e.received[cds] }); got != sent+1 {
			t.Errorf("%d responses with clusters for one new one", got-sent)
		}
		if got := w.told.objects(); got != "bad" {
			t.Errorf("told of %q", got)
		}
		w.serviceIn("demo", "bad", "", "10.0.0.1:80")
		w.commit()
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
		e.check()
	})
}
