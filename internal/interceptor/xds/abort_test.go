package xds

import (
	"fmt"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// refusesPath refuses route configurations with a path.
func refusesPath(path string) func(proto.Message) string {
	return func(is proto.Message) string {
		rc, _ := is.(*routev3.RouteConfiguration)
		for _, vh := range rc.GetVirtualHosts() {
			for _, r := range vh.GetRoutes() {
				if strings.HasPrefix(r.GetMatch().GetPathSeparatedPrefix(), path) {
					return "no such path"
				}
			}
		}
		return ""
	}
}

func onPath(path string) func(*httpv1alpha1.HTTPScaledObject) {
	return func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.PathPrefixes = []string{path} }
}

// If an Envoy refuses an object for its paths, it keeps the last form that it accepted,
// with the current split: an abort takes the canary off.
func TestAbortOfARefusedObject(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		client := w.dialer()
		e := newFake(t, client, sotw)
		e.refuse = refusesPath("/bad")
		for _, name := range []string{"app", "canary"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("app", "app=80", "canary=20")
		w.commit()
		e.run()
		e.has(w)
		split := func(want string) {
			t.Helper()
			eventually(t, "the split "+want, func() bool { return e.split("app.example.com") == want })
		}
		w.objectIn("demo", "app", onPath("/bad"), "app=80", "canary=20")
		w.commit()
		eventually(t, "told of it", func() bool { return w.told.objects() == "app" })
		w.objectIn("demo", "app", onPath("/bad"), "app=50", "canary=50")
		w.commit()
		split("demo/app/app=50 demo/app/canary=50")

		e.end()
		w.objectIn("demo", "app", onPath("/bad")) // an abort while the Envoy is away
		w.commit()
		e = e.again(client)
		e.run()
		split("demo/app/app")
		eventually(t, "the canary's cluster gone", func() bool {
			return locked(e, func() bool { return e.clusters["demo/app/canary"] == nil })
		})
		w.object("app", "app=70", "canary=30")
		w.commit()
		e.has(w)
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
		e.check()
	})
}

// An object that becomes invalid is served in its last valid form, with the current
// split: an abort takes the canary off.
func TestAbortOfAnInvalidObject(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		e := newFake(t, w.dialer(), sotw)
		for _, name := range []string{"app", "canary"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("app", "app=80", "canary=20")
		w.commit()
		e.run()
		e.has(w)
		w.objectIn("demo", "app", absurd, "app=80", "canary=20")
		w.commit()
		w.objectIn("demo", "app", absurd, "app=50", "canary=50")
		w.commit()
		eventually(t, "the next split", func() bool {
			return e.split("app.example.com") == "demo/app/app=50 demo/app/canary=50"
		})
		w.objectIn("demo", "app", absurd)
		w.commit()
		eventually(t, "the abort", func() bool { return e.split("app.example.com") == "demo/app/app" })
		eventually(t, "the canary's cluster gone", func() bool {
			return locked(e, func() bool { return e.clusters["demo/app/canary"] == nil })
		})
		if got := w.told.problems(); len(got) != 1 || got[0].Reason != InvalidForEnvoy {
			t.Errorf("told %v; expected one %s", got, InvalidForEnvoy)
		}
		e.check()
	})
}

// An Envoy comes back with one object in quarantine, and refuses another one for the
// first time, which changed while the Envoy was away. An abort of the object in
// quarantine still reaches it.
func TestAbortAfterARefusedFirstConfiguration(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		client := w.dialer()
		e := newFake(t, client, sotw)
		e.refuse = badSplit
		for _, name := range []string{"bad", "worse", "canary"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("bad", "bad=80", "canary=20")
		w.object("worse")
		w.commit()
		e.run()
		e.has(w)
		w.object("bad", "bad=87", "canary=13")
		w.commit()
		eventually(t, "the version with what stands in", func() bool {
			return locked(e, func() bool {
				return strings.Contains(e.versions[rds][""]+e.versions[rds][envoy.RouteConfigurationName], "demo/bad")
			})
		})
		e.end()
		eventually(t, "nobody refusing", func() bool { return w.told.objects() == "" })
		w.object("worse", "worse=87", "canary=13")
		w.commit()
		e = e.again(client)
		e.keeps = nil // the domain of worse is lost
		e.run()
		eventually(t, "told of the other", func() bool { return strings.Contains(w.told.objects(), "worse") })
		w.object("bad")
		w.commit()
		eventually(t, "the abort", func() bool { return e.split("bad.example.com") == "demo/bad/bad" })
		w.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: "worse"})
		w.commit()
		e.has(w)
		e.check()
	})
}

// While the server searches for the objects that an Envoy refuses, an abort of a suspect
// does not wait for the end of the search.
func TestAbortWhileRefusedObjectsAreLookedFor(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{}, func(s *Server) { s.minBackoff = 1 })
		for _, name := range []string{"app", "canary"} {
			w.service(name, "10.0.0.1:80")
		}
		const n = 64
		all := func(canary int) {
			for i := range n {
				w.object(fmt.Sprintf("bad%02d", i), fmt.Sprint("app=", 100-canary), fmt.Sprint("canary=", canary))
			}
			w.object("fine", fmt.Sprint("app=", 90-canary), fmt.Sprint("canary=", canary+10))
			w.commit()
		}
		all(20)
		e := newFake(t, w.dialer(), sotw)
		refusals, aborted := 0, 0
		e.refuse = func(is proto.Message) string {
			why := badSplit(is)
			if why == "" {
				rc, _ := is.(*routev3.RouteConfiguration)
				for _, vh := range rc.GetVirtualHosts() {
					if aborted == 0 && splitOf(vh) == "demo/fine/app=100 demo/fine/canary=0" {
						aborted = refusals
					}
				}
				return ""
			}
			if refusals++; refusals == 3 {
				w.object("fine", "app=100", "canary=0")
				w.commit()
			}
			return why
		}
		e.run()
		e.has(w)
		all(13)
		eventually(t, "the abort", func() bool {
			return e.split("fine.example.com") == "demo/fine/app=100 demo/fine/canary=0"
		})
		eventually(t, "all told of", func() bool { return w.server.refusals.objects() == n })
		if aborted := locked(e, func() int { return aborted }); aborted > 10 {
			t.Errorf("the abort came after %d refusals; expected it among the first", aborted)
		}
		e.check()
	})
}
