package xds

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// publish gives the table to the server. Unlike commit, it allows Problems: the test is
// about them.
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
		want       string // the answer to a path that only b names, while a owns the host
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

// A thousand changes in one namespace render nothing for the fleet of another. They are
// changes of a host that both name, of any host, and of the room that an Envoy of all
// namespaces has for the other's wildcards. The fleet's stream has looked at each change
// before the next one is made.
func TestChangesOfOneNamespaceRenderNothingForFleetsOfOthers(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		const room, changes = 50, 1000
		w := newWorld(t, envoy.Options{})
		w.builder = routes.NewBuilderOf(routes.Policy{HostOwnership: true, MaxMatchesPerNamespace: 1000, MaxWildcardMatchesPerNamespace: room, MaxWildcardMatches: room})
		for _, namespace := range []string{"a", "b"} {
			w.serviceIn(namespace, namespace, "", "10.0.0.1:80")
		}
		w.serviceIn("a", "canary", "", "10.0.0.2:80")
		const host = "app.example.com"
		wide := func(prefixes int) {
			w.objectIn("a", "any", func(o *httpv1alpha1.HTTPScaledObject) {
				o.Spec.Hosts = []string{"*"}
				for i := range prefixes {
					o.Spec.PathPrefixes = append(o.Spec.PathPrefixes, fmt.Sprint("/any", i))
				}
				o.Spec.ScaleTargetRef.Service = "a"
			})
		}
		own := func(i int) {
			w.objectIn("a", "a", allowing("b", host, fmt.Sprint("/a", i)), "a=50", fmt.Sprint("canary=", i))
		}
		wide(room)
		own(0)
		for i := range room {
			w.objectIn("b", fmt.Sprint("any", i), func(o *httpv1alpha1.HTTPScaledObject) {
				onHost("*", fmt.Sprint("/b", i))(o)
				o.Spec.ScaleTargetRef.Service = "b"
				o.CreationTimestamp = metav1.Unix(int64(i+1), 0)
			})
		}
		w.objectIn("b", "b", func(o *httpv1alpha1.HTTPScaledObject) {
			onHost(host, "/b")(o)
			o.CreationTimestamp = metav1.Unix(1, 0)
		})
		w.publish()
		b := newFake(t, w.dialer(), sotw, "b")
		b.run()
		eventually(t, "b's routes", func() bool {
			return strings.Contains(b.split(host), "b/b/b") && strings.Count(b.split("*"), "b/any") == room
		})
		rendered, received := count(w.server.metrics.rendered), locked(b, func() [kinds]int { return b.received })
		if rendered != 2 {
			t.Errorf("%v virtual hosts were rendered at first, want 2", rendered)
		}
		for i := range changes {
			own(i)
			wide(max(1, room-1-i))
			w.publish()
			eventually(t, "the stream having seen the change", w.seen)
		}
		if now := count(w.server.metrics.rendered); now != rendered {
			t.Errorf("%v virtual hosts were rendered for %d changes in another namespace", now-rendered, changes)
		}
		w.objectIn("b", "late", onHost("b.example.com", "/b"), "b=100")
		w.publish()
		eventually(t, "b's change", func() bool { return b.split("b.example.com") != "" })
		if now := count(w.server.metrics.rendered); now != rendered+1 {
			t.Errorf("%v virtual hosts were rendered, want one for the change in the namespace of the fleet", now-rendered)
		}
		if now := locked(b, func() [kinds]int { return b.received }); now[rds] != received[rds]+1 {
			t.Errorf("%v responses, after %v", now, received)
		}
		b.check()
	})
}

// seen tells whether all streams have looked at the newest change.
func (w *world) seen() bool {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		if !st.mu.TryLock() {
			return false
		}
		behind := st.position != s.journal.end()
		st.mu.Unlock()
		if behind {
			return false
		}
	}
	return true
}

// A wildcard for which an Envoy of all namespaces has no room is served by an Envoy of
// its own namespace.
func TestFleetsHaveRoomForTheirOwnWildcards(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.builder = routes.NewBuilderOf(routes.Policy{MaxMatchesPerNamespace: 1000, MaxWildcardMatchesPerNamespace: 1, MaxWildcardMatches: 1})
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

// Two objects of different namespaces, each with as many matches as one may have, would
// make 10^8 routes if each host of one listed all paths of the other. An Envoy gets far
// fewer routes, and a third object loses none of its own.
func TestTwoLargeObjectsDoNotMultiplyForAnEnvoy(t *testing.T) {
	const most = 10000
	numbered := func(format string) []string {
		all := make([]string, most)
		for i := range all {
			all[i] = fmt.Sprintf(format, i)
		}
		return all
	}
	w := newWorld(t, envoy.Options{})
	for _, namespace := range []string{"a", "b", "c"} {
		w.serviceIn(namespace, namespace, "", "10.0.0.1:80")
	}
	w.objectIn("a", "a", func(o *httpv1alpha1.HTTPScaledObject) {
		o.Spec.Hosts, o.Spec.PathPrefixes = numbered("h%d.example.com"), []string{"/own"}
	})
	w.objectIn("b", "b", func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.Hosts, o.Spec.PathPrefixes = nil, numbered("/p%d") })
	w.objectIn("c", "c", onHost("*", "/c"))
	w.publish()
	e := newFake(t, w.dialer(), false)
	e.run()
	eventually(t, "the last of the hosts", func() bool { return e.split("h9999.example.com") == "a/a/a c/c/c" })
	listed, bytes := locked(e, func() (n int) {
		for _, vh := range e.routes.GetVirtualHosts() {
			n += len(vh.GetRoutes())
		}
		return n
	}), locked(e, func() int { return proto.Size(e.routes) })
	if listed > 4*most || bytes > 16<<20 { // each host has its own route, that of c, and the one for all else
		t.Errorf("the Envoy has %d routes, of %d bytes", listed, bytes)
	}
	t.Logf("%d routes, %d bytes", listed, bytes)
	if got := e.split("*"); got != "c/c/c" {
		t.Errorf("any host goes to %q, want the object that has room", got)
	}
	e.check()
}

// An object past the matches of its namespace is served by no Envoy, also not by one that
// had it.
func TestAnEnvoyLosesAnObjectPastTheMatchesOfItsNamespace(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		policy := routes.DefaultPolicy()
		policy.MaxMatchesPerNamespace = 2
		w.builder = routes.NewBuilderOf(policy)
		w.serviceIn("a", "a", "", "10.0.0.1:80")
		hosts := func(created int64, all ...string) func(*httpv1alpha1.HTTPScaledObject) {
			return func(o *httpv1alpha1.HTTPScaledObject) {
				o.Spec.Hosts, o.CreationTimestamp = all, metav1.Unix(created, 0)
				o.Spec.ScaleTargetRef.Service = "a"
			}
		}
		w.objectIn("a", "old", hosts(1, "old.example.com"))
		w.objectIn("a", "young", hosts(2, "young.example.com"))
		w.publish()
		e := newFake(t, w.dialer(), sotw, "a")
		e.run()
		eventually(t, "both objects", func() bool { return e.split("old.example.com") != "" && e.split("young.example.com") != "" })
		w.objectIn("a", "old", hosts(1, "old.example.com", "older.example.com"))
		w.publish()
		eventually(t, "the young object gone", func() bool { return e.split("older.example.com") != "" && e.split("young.example.com") == "" })
		w.objectIn("a", "old", hosts(1, "old.example.com"))
		w.publish()
		eventually(t, "the young object back", func() bool { return e.split("older.example.com") == "" && e.split("young.example.com") != "" })
	})
}
