package xds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// everything refuses all clusters and route configurations.
func everything(is proto.Message) string {
	switch is.(type) {
	case *routev3.RouteConfiguration, *clusterv3.Cluster:
		return "this build can do nothing"
	}
	return ""
}

// Objects that one Envoy refuses reach the other Envoys, whichever connected first.
func TestOneEnvoyRefusesEverything(t *testing.T) {
	for name, refuse := range map[string]func(proto.Message) string{
		"clusters and routes": everything,
		"routes": func(is proto.Message) string {
			if _, is := is.(*routev3.RouteConfiguration); is {
				return "no"
			}
			return ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, sotw bool) {
				w := newWorld(t, envoy.Options{}, func(s *Server) { s.settle, s.minBackoff = 0, 1 })
				client := w.dialer()
				const n = 30
				app := func(i int) string { return fmt.Sprintf("app%02d", i) }
				w.service("canary", "10.0.0.9:80")
				for i := range n {
					w.service(app(i), "10.0.0.1:80")
					w.object(app(i), app(i)+"=80", "canary=20")
				}
				w.commit()
				refusing := newFake(t, client, sotw)
				refusing.refuse = refuse
				refusing.run()
				eventually(t, "Events of the refusals", func() bool { return len(strings.Fields(w.told.objects())) >= maxTold })

				taking := newFake(t, client, sotw)
				taking.run()
				taking.has(w)
				w.object(app(0), app(0)+"=50", "canary=50") // another split
				w.object(app(1))                            // an abort
				w.commit()
				taking.has(w)
				late := newFake(t, client, sotw)
				late.run()
				late.has(w)
				for _, e := range []*fake{taking, late} {
					e.check()
				}
				if got := len(strings.Fields(w.told.objects())); got > maxTold {
					t.Errorf("one Envoy caused Problems of %d objects; expected %d at most", got, maxTold)
				}
				// No Envoy refuses anything any more.
				refusing.end()
				eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
			})
		})
	}
}

// An Envoy that refuses an object gets all other changes, also those of objects in the
// same virtual host that change at the same moment.
func TestAbortBesideARefusedObject(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		client := w.dialer()
		e, taking := newFake(t, client, sotw), newFake(t, client, sotw)
		e.refuse = badSplit
		for _, name := range []string{"bad", "aborted", "canary"} {
			w.service(name, "10.0.0.1:80")
		}
		w.objectIn("demo", "bad", onHost("app.example.com", "/bad"), "bad=90", "canary=10")
		w.objectIn("demo", "aborted", onHost("app.example.com", "/ab"), "aborted=50", "canary=50")
		w.commit()
		e.run()
		taking.run()
		e.has(w)
		taking.has(w)
		const good = "demo/bad/bad=90 demo/bad/canary=10 "

		w.objectIn("demo", "bad", onHost("app.example.com", "/bad"), "bad=87", "canary=13")
		w.objectIn("demo", "aborted", onHost("app.example.com", "/ab"))
		w.commit()
		eventually(t, "the abort beside the last accepted form", func() bool { return e.split("app.example.com") == good+"demo/aborted/aborted" })
		taking.has(w)
		eventually(t, "told of the one at fault", func() bool { return w.told.objects() == "bad" })

		// Later changes arrive, too.
		w.objectIn("demo", "aborted", onHost("app.example.com", "/ab"), "aborted=99", "canary=1")
		w.commit()
		eventually(t, "the next canary", func() bool {
			return e.split("app.example.com") == good+"demo/aborted/aborted=99 demo/aborted/canary=1"
		})
		taking.has(w)
		w.objectIn("demo", "bad", onHost("app.example.com", "/bad"))
		w.commit()
		e.has(w)
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
		e.check()
		taking.check()
	})
}

// The last accepted form of an object is served at its own host, even if the refused
// form is for another host.
func TestRefusedObjectKeepsItsHost(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	e := newFake(t, w.dialer(), false)
	e.refuse = badSplit
	for _, name := range []string{"app", "other"} {
		w.service(name, "10.0.0.1:80")
	}
	w.objectIn("demo", "app", onHost("old.example.com", "/"))
	w.commit()
	e.run()
	e.has(w)
	w.objectIn("demo", "app", onHost("new.example.com", "/"), "app=87", "other=13")
	w.commit()
	eventually(t, "told of it", func() bool { return w.told.objects() == "app" })
	w.object("other")
	w.commit()
	eventually(t, "another object", func() bool { return e.split("other.example.com") != "" })
	if old, moved := e.split("old.example.com"), e.split("new.example.com"); old != "demo/app/app" || moved != "" {
		t.Errorf("the host that was accepted is served by %q, the one that was refused by %q", old, moved)
	}
	w.objectIn("demo", "app", onHost("new.example.com", "/"), "app=86", "other=14")
	w.commit()
	e.has(w)
	e.check()
}

// If the new form of a recreated object is refused, the form of the deleted object is not
// served in its place.
func TestRefusedObjectMadeAnew(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		e := newFake(t, w.dialer(), sotw)
		e.refuse = badSplit
		for _, name := range []string{"app", "other"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("app")
		w.object("other")
		w.commit()
		e.run()
		e.has(w)
		w.objectIn("demo", "app", func(o *httpv1alpha1.HTTPScaledObject) { o.UID = "another" }, "app=87", "other=13")
		w.commit()
		eventually(t, "the old one gone", func() bool { return e.split("app.example.com") == "" })
		eventually(t, "told of the new one", func() bool { return w.told.objects() == "app" })
		w.objectIn("demo", "app", func(o *httpv1alpha1.HTTPScaledObject) { o.UID = "another" }, "app=86", "other=14")
		w.commit()
		e.has(w)
		e.check()
	})
}

// An Envoy that refuses objects comes back, to the same interceptor or to one that
// has just started. It loses no domain that it served, gets the changes made
// meanwhile, and keeps the last accepted form of each object that it refuses.
func TestEnvoyThatRefusesComesBack(t *testing.T) {
	for _, another := range []bool{false, true} {
		t.Run(map[bool]string{false: "same interceptor", true: "another interceptor"}[another], func(t *testing.T) {
			both(t, func(t *testing.T, sotw bool) {
				w := newWorld(t, envoy.Options{}, func(s *Server) { s.settings.Linger = 0 })
				client := w.dialer()
				e := newFake(t, client, sotw)
				e.refuse = func(is proto.Message) string { return badSplit(is) + withoutHTTP1("demo/torn/canary")(is) }
				for _, name := range []string{"bad", "left", "torn", "fine", "canary", "gone"} {
					w.service(name, "10.0.0.1:80")
				}
				w.object("bad", "bad=80", "gone=20")
				w.object("torn")
				w.object("fine", "fine=50", "canary=50")
				w.commit()
				e.run()
				e.has(w)
				// The last accepted form of bad names a cluster that goes, left was
				// never accepted, and a cluster of torn is refused.
				w.object("bad", "bad=87", "canary=13")
				w.object("left", "left=87", "canary=13")
				w.object("torn", "torn=50", "canary=50")
				w.commit()
				eventually(t, "told of all", func() bool { return sorted(w.told.objects()) == "bad left torn" })
				served := func(e *fake, fine string) {
					t.Helper()
					for host, want := range map[string]string{
						"bad": "demo/bad/bad=80 demo/bad/gone=20", "left": "", "torn": "demo/torn/torn", "fine": fine,
					} {
						eventually(t, host+" served by "+want, func() bool { return e.split(host+".example.com") == want })
					}
				}
				eventually(t, "the version with what stands in", func() bool {
					return locked(e, func() bool { return strings.Contains(fmt.Sprint(e.versions[rds]), "gone") })
				})
				served(e, "demo/fine/fine=50 demo/fine/canary=50")

				if another {
					w.server = newWorldLike(w)
					client = w.dialer()
				}
				for round := range 3 {
					e.end()
					eventually(t, "nobody refusing", func() bool { return w.told.objects() == "" || another })
					// While the Envoy is away, bad changes to another form that the Envoy
					// refuses.
					w.object("bad", "bad=87", "canary=13", fmt.Sprint("fine=", round))
					w.object("fine", "fine=50", fmt.Sprint("canary=", round))
					w.commit()
					e = e.again(client)
					e.run()
					served(e, fmt.Sprint("demo/fine/fine=50 demo/fine/canary=", round))
					w.object("fine") // an abort
					w.commit()
					served(e, "demo/fine/fine")
					e.check()
				}
				w.object("bad", "bad=1", "gone=1")
				w.object("left")
				w.object("torn")
				w.commit()
				e.has(w)
				eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
				e.check()
			})
		})
	}
}

// Objects in quarantine cost nothing while none of them changes: after a change of an
// endpoint, the stream does not look at all of them.
func TestQuarantineIsNotLookedAtForNothing(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	const n = 1000
	for i := range n {
		w.objectIn("demo", fmt.Sprint("app", i), nil, "app=1")
	}
	table := w.commit()
	st := newStream(w.server, nil, true)
	if err := w.server.join(st, nil); err != nil {
		t.Fatal(err)
	}
	st.refresh()
	for route := range table.Routes() {
		st.subscribe(route.Backends[0].Cluster, absent+1)
		p := st.routes.pending[route.Name]
		p.quarantined, p.refused = true, route
	}
	st.routes.begun, st.routes.synced, st.routes.restored, st.channels[rds].answered = true, true, true, true
	st.channels[rds].asked, st.channels[rds].wanted[envoy.RouteConfigurationName] = true, true
	st.routes.rejected = st.versionText(st.routes.version, st.routes.table)
	allocations := testing.AllocsPerRun(10, func() {
		if err := st.sendRoutes(time.Now()); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > n/10 {
		t.Errorf("%v allocations to find that none of %d objects in quarantine is to be sent", allocations, n)
	}
}
