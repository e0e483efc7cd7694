package xds

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
)

// bootstrap returns a bootstrap for an Envoy of the fleet, with admin ports of its own.
func (f *fleet) bootstrap(sotw bool) *bootstrapv3.Bootstrap {
	f.t.Helper()
	text, err := envoy.Bootstrap(envoy.BootstrapOptions{XDSAddress: f.xds, AdminAddress: fmt.Sprint("127.0.0.1:", freeport.Get(f.t)), AdminPort: freeport.Get(f.t), SotW: sotw})
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	b := &bootstrapv3.Bootstrap{}
	if err == nil {
		err = protojson.Unmarshal(text, b)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

// startAnother starts an Envoy beside that of the fleet, and returns the port where it
// takes requests: its listener is static, and all else is from the server.
func (f *fleet) startAnother(sotw bool, arguments ...string) (*envoytest.Envoy, uint16) {
	f.t.Helper()
	port, b := freeport.Get(f.t), f.bootstrap(sotw)
	b.DynamicResources.LdsConfig = nil
	b.StaticResources.Listeners = newTranslator(f.t, envoy.Options{Address: netip.MustParseAddr("127.0.0.1"), HTTPPort: port}).Listeners()
	config, err := protojson.Marshal(b)
	if err != nil {
		f.t.Fatal(err)
	}
	e := envoytest.Start(f.t, config, arguments...)
	e.WaitReady()
	return e, port
}

// An Envoy that was built without an extension that every virtual host needs refuses all
// routes from the start. The Envoys beside it get everything.
func TestRealEnvoyOfAnotherBuild(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		f.service("canary", backend(t, "canary"))
		for _, name := range []string{"a", "b"} {
			f.service(name, backend(t, name))
			f.object(name, name+"=100", "canary=0")
		}
		f.commit()
		stripped, _ := f.startAnother(sotw, "--disable-extensions", "envoy.retry_priorities/envoy.retry_priorities.previous_priorities")
		eventually(t, "its refusal of both objects", func() bool { return sorted(f.told.objects()) == "a b" })
		if stripped.Stat("http.kedify-proxy.rds.kedify-proxy.update_rejected") == 0 {
			t.Error("the Envoy says that it refuses nothing")
		}

		f.start(sotw)
		f.waitFor("a.example.com", "a")
		f.waitFor("b.example.com", "b")
		f.object("a", "a=0", "canary=100")
		f.object("b", "b=0", "canary=100")
		f.commit()
		f.waitFor("a.example.com", "canary")
		f.waitFor("b.example.com", "canary")
		f.object("a") // an abort
		f.commit()
		f.waitFor("a.example.com", "a")

		late, port := f.startAnother(sotw)
		for host, want := range map[string]string{"a.example.com": "a", "b.example.com": "canary"} {
			eventually(t, host+" of the one that came last", func() bool { return f.getAt(port, host) == want })
		}
		for _, e := range []*envoytest.Envoy{f.envoy, late} {
			if n := e.Stat("http.kedify-proxy.rds.kedify-proxy.update_rejected"); n != 0 {
				t.Errorf("%d route configurations were refused by an Envoy that can take them", n)
			}
		}
		stripped.Stop()
		eventually(t, "nothing to tell of", func() bool { return f.told.objects() == "" })
	})
}

// relay forwards connections to an address, until cut closes them.
type relay struct {
	net.Listener
	to string

	mu   sync.Mutex
	open []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to}
	t.Cleanup(func() { _ = l.Close(); r.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			r.mu.Lock()
			r.open = append(r.open, in, out)
			r.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_, _ = pair[0].Close(), pair[1].Close()
				}()
			}
		}
	}()
	return r
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		_ = c.Close()
	}
	r.open = nil
}

// An Envoy that refuses an object gets all other changes. Neither a lost connection nor
// another interceptor costs a request, for that object or for others.
func TestRealEnvoyComesBackWithWhatItRefuses(t *testing.T) {
	for _, another := range []bool{false, true} {
		t.Run(map[bool]string{false: "connection lost", true: "another interceptor"}[another], func(t *testing.T) {
			both(t, func(t *testing.T, sotw bool) {
				f := newFleet(t, unchecked)
				between := newRelay(t, f.xds)
				for _, name := range []string{"bad", "other", "canary"} {
					f.service(name, backend(t, name))
				}
				// bad and beside are in one virtual host.
				beside := func(o *httpv1alpha1.HTTPScaledObject) {
					o.Spec.Hosts, o.Spec.Headers = []string{"bad.example.com"}, []httpv1alpha1.Header{{Name: "user-agent"}}
					o.Spec.PathPrefixes = []string{"/other"}
				}
				f.object("bad")
				f.objectIn("demo", "beside", func(o *httpv1alpha1.HTTPScaledObject) { beside(o); o.Spec.ScaleTargetRef.Service = "other" })
				f.object("other", "other=0", "canary=100")
				f.commit()
				if !another {
					f.xds = between.Addr().String()
				}
				f.start(sotw)
				// An Envoy that accepts the object gets each form of it.
				taking := newFake(t, f.dialer(), sotw)
				taking.run()
				taking.has(f.world)
				f.waitFor("bad.example.com", "bad")
				f.waitFor("other.example.com", "canary")
				stop := f.load("bad.example.com")

				f.objectIn("demo", "bad", absurd, "bad=100", "canary=0")
				f.commit()
				eventually(t, "told of it", func() bool { return f.told.objects() == "bad" })
				taking.has(f.world)
				change := func(round int, away func()) {
					t.Helper()
					if away != nil {
						connects := f.envoy.Stat("cluster.xds_cluster.upstream_cx_total")
						away()
						eventually(t, "another connection", func() bool {
							return f.envoy.Stat("cluster.xds_cluster.upstream_cx_total") > connects && f.envoy.Stat("control_plane.connected_state") == 1
						})
					}
					f.object("other") // an abort
					f.commit()
					f.waitFor("other.example.com", "other")
					f.object("other", "other=0", "canary=100")
					f.commit()
					f.waitFor("other.example.com", "canary")
					if got := f.get("bad.example.com"); got != "bad" {
						t.Errorf("round %d: what was accepted before is answered by %s", round, got)
					}
				}
				change(0, nil)
				eventually(t, "a version that names it", func() bool {
					config, err := f.envoy.Get("/config_dump?resource=dynamic_route_configs")
					return err == nil && strings.Contains(config, `demo/bad`) && strings.Contains(config, `\"paths\"`)
				})
				for round := range 3 {
					if another {
						change(round+1, func() {
							f.stop()
							// The refused object changes while no interceptor is running.
							f.objectIn("demo", "bad", absurd, fmt.Sprint("bad=", 50+round), "canary=0")
							f.builder.Commit()
							f.restart()
						})
					} else {
						change(round+1, between.cut)
					}
					eventually(t, "told of it again", func() bool { return strings.Contains(f.told.objects(), "bad") })
				}
				requireAnswersOf(t, stop(), "bad")
				// The split of the object takes effect though the rest of it is refused.
				f.objectIn("demo", "bad", absurd, "bad=0", "canary=100")
				f.commit()
				f.waitFor("bad.example.com", "canary")
				f.objectIn("demo", "bad", absurd) // an abort
				f.commit()
				f.waitFor("bad.example.com", "bad")
				f.object("bad", "bad=0", "canary=100")
				f.commit()
				f.waitFor("bad.example.com", "canary")
				if !another {
					taking.has(f.world)
					taking.check()
				}
				f.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: "bad"})
				f.commit()
				eventually(t, "nothing to tell of", func() bool { return f.told.objects() == "" })
			})
		})
	}
}

// An object that Envoy would refuse is not sent. It is served in its last valid form,
// with the current split and endpoints; changes of other objects arrive.
func TestRealEnvoyIsNotSentWhatIsInvalid(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		for _, name := range []string{"was-valid", "never", "beside", "canary"} {
			f.service(name, backend(t, name))
		}
		f.object("was-valid", "was-valid=100", "canary=0")
		f.objectIn("demo", "beside", onHost("never.example.com", "/"))
		never := func(o *httpv1alpha1.HTTPScaledObject) { onHost("never.example.com", "/never")(o); absurd(o) }
		f.objectIn("demo", "never", never)
		f.commit()
		f.start(sotw)
		f.waitFor("was-valid.example.com", "was-valid")
		f.waitFor("never.example.com", "beside")

		f.objectIn("demo", "was-valid", absurd, "was-valid=0", "canary=100")
		f.objectIn("demo", "beside", onHost("never.example.com", "/"), "beside=0", "canary=100")
		f.commit()
		f.waitFor("never.example.com", "canary")
		f.waitFor("was-valid.example.com", "canary")
		f.service("was-valid", backend(t, "another pod"))
		f.objectIn("demo", "was-valid", absurd) // an abort
		f.commit()
		f.waitFor("was-valid.example.com", "another pod")
		if got := sorted(f.told.objects()); got != "never was-valid" {
			t.Errorf("told of %q", got)
		}
		for _, p := range f.told.problems() {
			want := "spec.timeouts.responseHeader: 2562047h47m16s is longer than Envoy can count; expected 2562047h47m15s at most; kedify-proxies "
			if p.Reason != InvalidForEnvoy || p.Field != "spec.timeouts.responseHeader" || !strings.HasPrefix(p.Message, want) {
				t.Errorf("told %+v; expected %s", p, want)
			}
		}

		f.object("was-valid", "was-valid=0", "canary=100")
		f.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: "never"})
		f.commit()
		f.waitFor("was-valid.example.com", "canary")
		if got := f.told.objects(); got != "" {
			t.Errorf("told of %q though nothing is invalid", got)
		}
		if n := f.nacks(); n != 0 {
			t.Errorf("%d responses were refused", n)
		}
	})
}

// An object changes while an Envoy is away, to a form that this Envoy refuses for
// the first time. No request for another object fails.
func TestRealEnvoyRefusesOneObjectAfterAReconnect(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t, unchecked)
		const n = 12
		app := func(i int) string { return fmt.Sprintf("app%02d", i) }
		f.service("canary", backend(t, "canary"))
		for i := range n {
			f.service(app(i), backend(t, app(i)))
			f.object(app(i), app(i)+"=100", "canary=0")
		}
		f.commit()
		f.start(sotw)
		for i := range n {
			f.waitFor(app(i)+".example.com", app(i))
		}
		const bad = 7
		stops := make(map[int]func() map[string]int)
		for _, i := range []int{0, 1, bad - 1, bad + 1, n - 1} {
			stops[i] = f.load(app(i) + ".example.com")
		}
		f.stop()
		f.objectIn("demo", app(bad), absurd, app(bad)+"=100", "canary=0")
		f.builder.Commit()
		f.restart()
		eventually(t, "told of it", func() bool { return f.told.objects() == app(bad) })
		f.object(app(bad), app(bad)+"=0", "canary=100") // in a form that the Envoy accepts
		f.commit()
		f.waitFor(app(bad)+".example.com", "canary")
		for i, stop := range stops {
			for answer, n := range stop() {
				if answer != app(i) {
					t.Errorf("%d requests for %s were answered %q", n, app(i), answer)
				}
			}
		}
	})
}

// An interceptor starts while an object is invalid. No request fails: the Envoy keeps the
// form that it has, with the current split and endpoints.
func TestRealEnvoyComesBackWhileAnObjectIsInvalid(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		for _, name := range []string{"app", "deleted", "canary"} {
			f.service(name, backend(t, name))
		}
		f.object("app", "app=100", "canary=0")
		f.object("deleted")
		f.commit()
		f.start(sotw)
		f.waitFor("app.example.com", "app")
		f.waitFor("deleted.example.com", "deleted")
		f.objectIn("demo", "app", absurd, "app=100", "canary=0")
		f.objectIn("demo", "deleted", absurd)
		f.object("canary") // if the routes did not change, Envoy would not show their version
		f.commit()
		eventually(t, "a version that lists both", func() bool {
			config, err := f.envoy.Get("/config_dump?resource=dynamic_route_configs")
			return err == nil && strings.Contains(config, `demo/app\"`) && strings.Contains(config, `demo/deleted\"`)
		})
		stop := f.load("app.example.com")
		for round := range 3 {
			connects := f.envoy.Stat("cluster.xds_cluster.upstream_cx_total")
			f.stop()
			if round == 1 {
				f.builder.DeleteHTTPScaledObject(objectNamed("deleted"))
				f.builder.Commit()
			}
			f.restart()
			eventually(t, "another connection", func() bool {
				return f.envoy.Stat("cluster.xds_cluster.upstream_cx_total") > connects && f.envoy.Stat("control_plane.connected_state") == 1
			})
			f.object("canary") // a valid object is still served
			f.commit()
			f.waitFor("canary.example.com", "canary")
			f.builder.DeleteHTTPScaledObject(objectNamed("canary"))
			f.commit()
			f.waitFor("canary.example.com", "404")
			want := "deleted"
			if round > 0 {
				want = "404"
			}
			if got := f.get("deleted.example.com"); got != want {
				t.Errorf("round %d: what was deleted is answered %s; expected %s", round, got, want)
			}
		}
		requireAnswersOf(t, stop(), "app")
		f.objectIn("demo", "app", absurd, "app=0", "canary=100")
		f.commit()
		f.waitFor("app.example.com", "canary")
		f.service("app", backend(t, "another pod"))
		f.objectIn("demo", "app", absurd) // an abort
		f.commit()
		f.waitFor("app.example.com", "another pod")
		f.object("app", "app=0", "canary=100")
		f.commit()
		f.waitFor("app.example.com", "canary")
		if n := f.nacks(); n != 0 {
			t.Errorf("%d responses were refused", n)
		}
	})
}
