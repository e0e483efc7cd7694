package xds

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// A panic while one object is translated is a Problem of that object, which is served in
// its last valid form; changes of all other objects arrive.
func TestAPanicOverOneObjectReachesNoOther(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{}, func(s *Server) {
			validate := s.validate
			s.validate = func(r *routes.Route) error {
				if r.ResponseHeader != nil {
					panic("a fault of the translation")
				}
				return validate(r)
			}
		})
		e := newFake(t, w.dialer(), sotw)
		for _, name := range []string{"app", "canary", "other"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("app", "app=80", "canary=20")
		w.object("other")
		w.commit()
		e.run()
		e.has(w)
		w.objectIn("demo", "app", absurd, "app=50", "canary=50")
		w.object("other", "other=70", "canary=30")
		w.commit()
		eventually(t, "the other object's split", func() bool {
			return e.split("other.example.com") == "demo/other/other=70 demo/other/canary=30"
		})
		eventually(t, "the object's own split in its last valid form", func() bool {
			return e.split("app.example.com") == "demo/app/app=50 demo/app/canary=50"
		})
		w.objectIn("demo", "app", absurd)
		w.commit()
		eventually(t, "the abort", func() bool { return e.split("app.example.com") == "demo/app/app" })
		if got := w.told.problems(); len(got) != 1 || got[0].Reason != InvalidForEnvoy || !strings.Contains(got[0].Message, "(a fault of the translation)") {
			t.Errorf("told %v; expected one %s", got, InvalidForEnvoy)
		}
		w.object("app")
		w.commit()
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
		e.check()
	})
}

// boom is a path for which making a virtual host panics when the test wants it to.
const boom = "/boom"

// TestAPanicOverRoutesReachesNoOther: if making a virtual host panics, with one object
// alone or beside others, the Envoy gets the changes of all other objects.
func TestAPanicOverRoutesReachesNoOther(t *testing.T) {
	for name, matches := range map[string]int{"of the object alone": 1, "beside another": 2} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, sotw bool) {
				w := newWorld(t, envoy.Options{}, func(s *Server) {
					make := s.host
					s.host = func(vh routes.VirtualHost) *host {
						if len(vh.Matches) >= matches && slices.ContainsFunc(vh.Matches, func(m routes.Match) bool { return m.PathPrefix == boom }) {
							panic("a fault of the translation")
						}
						return make(vh)
					}
				})
				for _, name := range []string{"app", "canary", "other", "beside", "more"} {
					w.service(name, "10.0.0.1:80")
				}
				w.object("app", "app=80", "canary=20")
				w.object("other")
				w.objectIn("demo", "beside", onHost("app.example.com", "/beside"))
				w.commit()
				client := w.dialer()
				e := newFake(t, client, sotw)
				e.run()
				e.has(w)
				fails := func(split ...string) {
					w.objectIn("demo", "app", func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.PathPrefixes = []string{boom} }, split...)
				}
				fails("app=50", "canary=50")
				w.object("other", "other=70", "canary=30")
				w.object("more")
				w.commit()
				others := func(e *fake) {
					t.Helper()
					eventually(t, "the other objects", func() bool {
						return e.split("other.example.com") == "demo/other/other=70 demo/other/canary=30" && e.split("more.example.com") == "demo/more/more"
					})
				}
				others(e)
				eventually(t, "the object's own split in the form before", func() bool {
					return e.split("app.example.com") == "demo/beside/beside demo/app/app=50 demo/app/canary=50"
				})
				eventually(t, "the Problem", func() bool { return w.told.objects() == "app" })
				if got := w.told.problems()[0]; got.Reason != routes.InternalError || !strings.Contains(got.Message, "(a fault of the translation)") {
					t.Errorf("told %v; expected %s", got, routes.InternalError)
				}
				fails()
				w.commit()
				eventually(t, "the abort", func() bool { return e.split("app.example.com") == "demo/beside/beside demo/app/app" })
				// A new Envoy gets all other objects, and one that comes back keeps them.
				fresh := newFake(t, client, sotw)
				fresh.run()
				others(fresh)
				eventually(t, "one of the objects of the host", func() bool {
					got := fresh.split("app.example.com") // the first one, if only both together panic
					return got == "demo/beside/beside" || got == "demo/app/app" && matches > 1
				})
				back := e.again(client)
				back.run()
				w.object("other")
				w.commit()
				eventually(t, "a change after coming back", func() bool { return back.split("other.example.com") == "demo/other/other" })
				w.object("app")
				w.commit()
				back.has(w)
				back.check()
				if matches == 1 { // otherwise the other object may be in quarantine on this stream
					fresh.has(w)
				}
				fresh.check()
				fresh.end()
				eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
			})
		})
	}
}

// An Envoy comes back with forms whose translation panics, and nothing else is due yet:
// it gets the current forms, and does not reconnect again and again.
func TestAPanicOverTheFormsThatAnEnvoyHas(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		var broken atomic.Bool
		w := newWorld(t, envoy.Options{}, func(s *Server) {
			make := s.host
			s.host = func(vh routes.VirtualHost) *host {
				if broken.Load() && slices.ContainsFunc(vh.Matches, func(m routes.Match) bool { return m.PathPrefix == boom }) {
					panic("a fault of the translation")
				}
				return make(vh)
			}
		})
		names := []string{"app", "other"}
		set := func(prefix string, split ...string) {
			for _, name := range names {
				w.objectIn("demo", name, func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.PathPrefixes = []string{prefix} }, split...)
			}
			w.commit()
		}
		for _, name := range append(names, "canary") {
			w.service(name, "10.0.0.1:80")
		}
		set(boom)
		e := newFake(t, w.dialer(), sotw)
		e.refuse = badSplit
		e.run()
		e.has(w)
		set("/new", "canary=87", "app=13")
		eventually(t, "both objects being refused", func() bool { return w.told.objects() == "app other" })
		eventually(t, "both forms before in the version", func() bool {
			key := map[bool]string{false: envoy.RouteConfigurationName}[sotw]
			return len(savedIn(locked(e, func() string { return e.versions[rds][key] }))) == len(names)
		})
		broken.Store(true)
		back := e.again(w.dialer())
		back.refuse, back.keeps = func(proto.Message) string { return "" }, nil
		back.run()
		back.has(w)
		back.check()
	})
}

// If the translation of an object's endpoints panics, the Envoy keeps those that it has.
func TestAPanicOverEndpointsReachesNoOther(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{}, func(s *Server) {
			make := s.assignment
			s.assignment = func(b *routes.Backend, fallback envoy.Fallback) []byte {
				if len(b.Ready) > 0 && b.Ready[0].Port() == 666 {
					panic("a fault of the translation")
				}
				return make(b, fallback)
			}
		})
		for _, name := range []string{"app", "other"} {
			w.service(name, "10.0.0.1:80")
			w.object(name)
		}
		w.commit()
		client := w.dialer()
		e := newFake(t, client, sotw)
		e.run()
		e.has(w)
		w.service("app", "10.0.0.1:666")
		w.service("other", "10.0.0.2:80")
		w.commit()
		has := func(e *fake, name string) string {
			return locked(e, func() string { return prototext.Format(e.assignments["demo/"+name+"/"+name]) })
		}
		fresh := newFake(t, client, sotw)
		fresh.run()
		for _, e := range []*fake{e, fresh} {
			eventually(t, "the endpoints of the other object", func() bool { return strings.Contains(has(e, "other"), "10.0.0.2") })
		}
		if got := has(e, "app"); !strings.Contains(got, "10.0.0.1") || strings.Contains(got, "666") {
			t.Errorf("the object has %s; expected the endpoints before", got)
		}
		eventually(t, "the Problem", func() bool { return w.told.objects() == "app" })
		if got := w.told.problems()[0]; got.Reason != routes.InternalError || !strings.Contains(got.Message, "(a fault of the translation)") {
			t.Errorf("told %v; expected %s", got, routes.InternalError)
		}
		w.service("app", "10.0.0.1:80") // the endpoint that the Envoy still has
		w.commit()
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
		w.service("app", "10.0.0.3:80")
		w.commit()
		for _, e := range []*fake{e, fresh} {
			eventually(t, "the object's new endpoints", func() bool { return strings.Contains(has(e, "app"), "10.0.0.3") })
			e.has(w)
			e.check()
		}
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
	})
}
