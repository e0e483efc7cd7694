package xds

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// publish hands the table on. Problems are what the test is about.
func (w *world) publish() { w.server.Update(w.builder.Commit()) }

func allowing(namespaces, host, prefix string) func(*httpv1alpha1.HTTPScaledObject) {
	return func(o *httpv1alpha1.HTTPScaledObject) {
		onHost(host, prefix)(o)
		o.Annotations = map[string]string{routes.AllowedNamespacesAnnotation: namespaces}
	}
}

func TestRealEnvoyFollowsHostOwnership(t *testing.T) {
	for name, tt := range map[string]struct {
		namespaces []string
		want       string // while a owns the host, of a path that only b asks for
	}{
		"all":          {want: "404"},
		"both":         {namespaces: []string{"a", "b"}, want: "404"},
		"b alone":      {namespaces: []string{"b"}, want: "b"},
		"b and others": {namespaces: []string{"b", "c"}, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			policy := routes.DefaultPolicy()
			policy.HostOwnership = true
			f.builder = routes.NewBuilderOf(policy)
			for _, namespace := range []string{"a", "b"} {
				f.serviceIn(namespace, namespace, "", backend(t, namespace))
			}
			const host = "app.example.com"
			f.objectIn("a", "a", onHost(host, "/a"))
			f.objectIn("b", "b", func(o *httpv1alpha1.HTTPScaledObject) {
				onHost(host, "/")(o)
				o.CreationTimestamp = metav1.Unix(1, 0)
			})
			f.publish()
			f.start(false, tt.namespaces...)
			f.waitFor(host, tt.want)
			f.objectIn("a", "a", allowing("b", host, "/a"))
			f.publish()
			f.waitFor(host, "b")
			f.objectIn("a", "a", onHost(host, "/a"))
			f.publish()
			f.waitFor(host, tt.want)
			f.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "a", Name: "a"})
			f.publish()
			f.waitFor(host, "b")
			if n := f.nacks(); n > 0 {
				t.Errorf("the Envoy refused %d responses", n)
			}
		})
	}
}

// A thousand changes in one namespace, of any host among others, render nothing for
// the fleet of another.
func TestChangesOfOneNamespaceRenderNothingForFleetsOfOthers(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		for _, namespace := range []string{"a", "b"} {
			w.serviceIn(namespace, namespace, "", "10.0.0.1:80")
		}
		w.serviceIn("a", "canary", "", "10.0.0.2:80")
		w.objectIn("b", "b", onHost("app.example.com", "/b"))
		w.objectIn("a", "a", onHost("app.example.com", "/a"))
		w.publish()
		b := newFake(t, w.dialer(), sotw, "b")
		b.run()
		eventually(t, "b's routes", func() bool { return b.split("app.example.com") == "b/b/b" })
		rendered, received := count(w.server.metrics.rendered), locked(b, func() [kinds]int { return b.received })
		if rendered == 0 {
			t.Fatal("nothing was rendered")
		}
		for i := range 1000 {
			w.objectIn("a", "a", onHost("app.example.com", fmt.Sprint("/a", i)), "a=50", fmt.Sprint("canary=", i))
			w.objectIn("a", "any", onHost("*", fmt.Sprint("/any", i)))
			w.publish()
		}
		// What changes last is seen after all of them.
		w.objectIn("b", "b", onHost("b.example.com", "/b"))
		w.publish()
		eventually(t, "b's change", func() bool { return b.split("b.example.com") == "b/b/b" })
		if now := count(w.server.metrics.rendered); now != rendered+1 {
			t.Errorf("%d virtual hosts were rendered, for one change in the namespace of the fleet", now-rendered)
		}
		if now := locked(b, func() [kinds]int { return b.received }); now[rds] != received[rds]+1 || now[cds] != received[cds] {
			t.Errorf("%v responses, after %v", now, received)
		}
		b.check()
	})
}

// What is crowded out of an Envoy of all namespaces is in one of its own.
func TestFleetsHaveRoomForTheirOwnWildcards(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.builder = routes.NewBuilderOf(routes.Policy{MaxWildcardMatchesPerNamespace: 1, MaxWildcardMatches: 1})
	for _, namespace := range []string{"a", "b"} {
		w.serviceIn(namespace, namespace, "", "10.0.0.1:80")
		w.objectIn(namespace, namespace, onHost("*.example.com", "/"+namespace))
	}
	w.publish()
	client := w.dialer()
	for _, tt := range []struct {
		namespaces []string
		want       string
	}{{nil, "a/a/a"}, {[]string{"a"}, "a/a/a"}, {[]string{"b"}, "b/b/b"}, {[]string{"a", "b"}, "a/a/a"}} {
		e := newFake(t, client, false, tt.namespaces...)
		e.run()
		eventually(t, fmt.Sprint("routes of ", tt.namespaces), func() bool { return e.split("*.example.com") == tt.want })
		e.end()
	}
}
