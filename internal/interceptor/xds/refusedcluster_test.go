package xds

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// withoutHTTP1 refuses clusters of HTTP/1.1 with these names.
func withoutHTTP1(names ...string) func(proto.Message) string {
	return func(is proto.Message) string {
		if c, isCluster := is.(*clusterv3.Cluster); isCluster && slices.Contains(names, c.GetName()) && !isHTTP2(c) {
			return "no"
		}
		return ""
	}
}

// An object with a new cluster that is refused is left out. Neither the other objects of
// its virtual hosts nor an Envoy that starts waits for it.
func TestRefusedNewClusterKeepsNobodyWaiting(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		client := w.dialer()
		refusing := func() *fake {
			e := newFake(t, client, sotw)
			e.refuse = withoutHTTP1("demo/bad/bad", "demo/worse/worse")
			e.run()
			return e
		}
		for _, name := range []string{"a", "b", "bad", "worse", "good"} {
			w.service(name, "10.0.0.1:80")
		}
		w.objectIn("demo", "a", onHost("a.example.com", "/api"))
		w.objectIn("demo", "b", onHost("b.example.com", "/api"))
		w.commit()
		e := refusing()
		e.has(w)

		// An object for any host is in every virtual host.
		w.objectIn("demo", "bad", onHost("*", "/bad"))
		w.objectIn("demo", "worse", onHost("*", "/worse"))
		w.commit()
		eventually(t, "told of both", func() bool { return sorted(w.told.objects()) == "bad worse" })
		w.objectIn("demo", "a", onHost("a.example.com", "/api"), "a=50", "b=50")
		w.objectIn("demo", "b", onHost("b.example.com", "/api"), "a=30", "b=70")
		w.commit()
		fresh := refusing()
		for _, e := range []*fake{e, fresh} {
			for host, want := range map[string]string{"a": "demo/a/a=50 demo/a/b=50", "b": "demo/b/a=30 demo/b/b=70"} {
				eventually(t, "the split of "+host, func() bool {
					return locked(e, func() bool { return e.routes != nil }) && e.split(host+".example.com") == want
				})
			}
		}
		// An object comes back when its cluster changes, beside one that is still
		// refused, and when the object gets another cluster.
		w.serviceIn("demo", "bad", "kubernetes.io/h2c", "10.0.0.1:80")
		w.commit()
		for _, e := range []*fake{e, fresh} {
			eventually(t, "the object that is mended", func() bool {
				return e.split("a.example.com") == "demo/a/a=50 demo/a/b=50 demo/bad/bad"
			})
		}
		eventually(t, "told of the other alone", func() bool { return w.told.objects() == "worse" })
		// An Envoy that accepts the cluster of worse has this object.
		taking := newFake(t, client, sotw)
		taking.run()
		taking.has(w)
		w.objectIn("demo", "worse", onHost("*", "/worse"), "good=100")
		w.commit()
		for _, e := range []*fake{e, fresh, taking} {
			e.has(w)
			e.check()
		}
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
	})
}

// An object that an Envoy serves keeps its previous form when it gets a cluster that the
// Envoy refuses.
func TestRefusedNewClusterOfAnObjectThatIsServed(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		e := newFake(t, w.dialer(), sotw)
		e.refuse = withoutHTTP1("demo/app/canary")
		for _, name := range []string{"app", "canary", "other"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("app", "app=100")
		w.objectIn("demo", "other", onHost("app.example.com", "/other"))
		w.commit()
		e.run()
		e.has(w)

		split := func(want string) {
			t.Helper()
			eventually(t, "the split "+want, func() bool { return e.split("app.example.com") == want })
		}
		w.object("app", "app=80", "canary=20")
		w.commit()
		eventually(t, "told of it", func() bool { return w.told.objects() == "app" })
		w.objectIn("demo", "other", onHost("app.example.com", "/other"), "other=50", "app=50")
		w.commit()
		split("demo/other/other=50 demo/other/app=50 demo/app/app")
		// Another split with the refused cluster does not help.
		w.object("app", "app=60", "canary=40")
		w.objectIn("demo", "other", onHost("app.example.com", "/other"), "other=40", "app=60")
		w.commit()
		split("demo/other/other=40 demo/other/app=60 demo/app/app")

		w.serviceIn("demo", "canary", "kubernetes.io/h2c", "10.0.0.1:80")
		w.commit()
		e.has(w)
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
		e.check()
	})
}

// The form that is served in place of a refused object may name clusters that are gone.
// An Envoy that never had these clusters does not wait for them.
func TestRefusedObjectOfWhichAClusterIsGone(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		client := w.dialer()
		start := func() *fake {
			e := newFake(t, client, sotw)
			e.refuse = badSplit
			e.run()
			return e
		}
		for _, name := range []string{"app", "before", "after", "other"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("app", "app=50", "before=50")
		w.objectIn("demo", "other", onHost("app.example.com", "/other"))
		w.commit()
		e := start()
		e.has(w)
		w.object("app", "app=87", "after=13")
		w.commit()
		eventually(t, "told of it", func() bool { return w.told.objects() == "app" })

		fresh := start()
		w.objectIn("demo", "other", onHost("app.example.com", "/other"), "other=50", "app=50")
		w.commit()
		const other, good = "demo/other/other=50 demo/other/app=50", " demo/app/app=50 demo/app/before=50"
		eventually(t, "the one that has it serving by it", func() bool { return e.split("app.example.com") == other+good })
		eventually(t, "the other serving its neighbour", func() bool {
			return locked(fresh, func() bool { return fresh.routes != nil }) && fresh.split("app.example.com") == other
		})
		w.object("app", "app=86", "after=14")
		w.commit()
		for _, e := range []*fake{e, fresh} {
			e.has(w)
			e.check()
		}
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
	})
}
