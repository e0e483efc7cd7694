package routes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// tenants is a Builder of objects that are named namespace/name. The first one made is
// the oldest.
type tenants struct {
	t *testing.T
	*Builder
	made map[string]time.Time
}

func newTenants(t *testing.T, policy Policy) *tenants {
	return &tenants{t: t, Builder: NewBuilderOf(policy), made: make(map[string]time.Time)}
}

func owning() Policy {
	p := DefaultPolicy()
	p.HostOwnership = true
	return p
}

func namedObject(name string) types.NamespacedName {
	namespace, name, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// set makes an object, or changes it. allowed is for AllowedNamespacesAnnotation.
func (w *tenants) set(name string, hosts, prefixes []string, allowed ...string) {
	if _, found := w.made[name]; !found {
		w.made[name] = time.Unix(int64(len(w.made)), 0)
	}
	object, port := namedObject(name), int32(80)
	o := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, CreationTimestamp: metav1.Time{Time: w.made[name]}},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: hosts, PathPrefixes: prefixes, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "s", Port: &port},
		},
	}
	if len(allowed) > 0 {
		o.Annotations = map[string]string{AllowedNamespacesAnnotation: strings.Join(allowed, ",")}
	}
	w.SetHTTPScaledObject(o)
}

func (w *tenants) delete(name string) { w.DeleteHTTPScaledObject(namedObject(name)) }

// goes commits, and checks which object each request goes to in the embedded proxy and
// in an Envoy of all namespaces; "nobody" is for none.
func (w *tenants) goes(requests map[string]string) {
	w.t.Helper()
	w.Commit()
	for request, want := range requests {
		if got := w.servedIn(nil, request); got != want {
			w.t.Errorf("Envoy sends %s to %s, want %s", request, got, want)
		}
		host, path, _ := strings.Cut(request, "/")
		if got := nameOf(w.Table().Lookup(host, "/"+path, nil)); got != want {
			w.t.Errorf("%s goes to %s, want %s", request, got, want)
		}
	}
}

// servedIn returns the object that serves a request in an Envoy of some namespaces.
func (w *tenants) servedIn(namespaces Namespaces, r string) string {
	host, path, _ := strings.Cut(r, "/")
	return nameOf(envoyLookup(w.Table(), namespaces, request{host: host, path: "/" + path}))
}

// told returns the message of an object's problem with this reason; "" if there is
// none.
func (w *tenants) told(name string, reason Reason) string {
	for _, p := range w.Table().ProblemsOf(namedObject(name)) {
		if p.Reason == reason {
			return p.Message
		}
	}
	return ""
}

func (w *tenants) tells(name string, reason Reason, parts ...string) {
	w.t.Helper()
	got := w.told(name, reason)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			w.t.Errorf("%s: %s says %q, want %q in it", name, reason, got, part)
		}
	}
	if len(parts) == 0 && got != "" {
		w.t.Errorf("%s: %s says %q, want nothing", name, reason, got)
	}
}

var root, below = []string{"/"}, []string{"/below"}

func TestTakingAPartOfAHostIsToldOnBothObjects(t *testing.T) {
	w := newTenants(t, DefaultPolicy())
	w.set("a/old", []string{"shop.example.com", "other.example.com"}, root)
	w.set("a/own", []string{"shop.example.com"}, []string{"/own"})
	w.goes(nil)
	w.tells("a/old", HostDisputed)
	w.set("b/young", []string{"shop.example.com"}, below)
	w.goes(map[string]string{"shop.example.com/below": "b/young", "shop.example.com/": "a/old"})
	w.tells("a/old", HostDisputed, "shop.example.com (b/young)", "they take requests", AllowedNamespacesAnnotation)
	w.tells("b/young", HostNotOwned, "shop.example.com (a/old)", "it takes their requests")
	w.tells("a/own", HostNotOwned)

	// With the permission, without it again, and when b/young no longer names the host.
	w.set("a/old", []string{"shop.example.com", "other.example.com"}, root, "b")
	w.goes(nil)
	w.tells("a/old", HostDisputed)
	w.tells("b/young", HostNotOwned)
	w.set("a/old", []string{"shop.example.com", "other.example.com"}, root)
	w.goes(nil)
	w.tells("b/young", HostNotOwned, "a/old")
	w.set("b/young", []string{"b.example.com"}, below)
	_, changes := w.Commit()
	w.tells("a/old", HostDisputed)
	w.tells("b/young", HostNotOwned)
	if len(changes.Resolved) != 2 {
		t.Errorf("resolved: %v", changes.Resolved)
	}
	w.set("b/young", []string{"shop.example.com"}, below)
	w.Commit()
	w.delete("b/young")
	w.Commit()
	w.tells("a/old", HostDisputed)
}

// An object that gets no request of a host has the problem Shadowed, not HostNotOwned.
func TestAShadowedObjectTakesNothing(t *testing.T) {
	w := newTenants(t, DefaultPolicy())
	w.set("a/old", []string{"shop.example.com"}, root)
	w.set("b/young", []string{"shop.example.com"}, root)
	w.Commit()
	w.tells("b/young", HostNotOwned)
	w.tells("b/young", Shadowed, "a/old")
}

// The names of other objects can be many, but an Event is short.
func TestTellingOfManyHostsIsShort(t *testing.T) {
	w := newTenants(t, DefaultPolicy())
	var hosts []string
	for i := range 200 {
		hosts = append(hosts, fmt.Sprintf("h%d.example.com", i))
	}
	w.set("a/old", hosts, root)
	for i := range 20 {
		w.set(fmt.Sprintf("b%d/young", i), hosts, []string{fmt.Sprint("/", i)})
	}
	w.Commit()
	for _, name := range []string{"a/old", "b7/young"} {
		reason := map[bool]Reason{true: HostDisputed, false: HostNotOwned}[name == "a/old"]
		w.tells(name, reason, "and 195 more")
		if got := w.told(name, reason); len(got) > 1000 {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	}
}

func TestHostOwnership(t *testing.T) {
	w := newTenants(t, owning())
	w.set("a/old", []string{"shop.example.com", "*.a.example.com"}, []string{"/", "/a"})
	w.set("b/young", []string{"shop.example.com", "b.example.com"}, below)
	w.set("b/exact", []string{"b.a.example.com"}, root)
	w.set("b/wild", []string{"*.a.example.com"}, below)
	w.set("a/own", []string{"shop.example.com"}, []string{"/own"})
	w.goes(map[string]string{
		"shop.example.com/below":  "a/old",
		"shop.example.com/own":    "a/own",
		"b.example.com/below":     "b/young", // b/young owns its other host
		"b.a.example.com/":        "b/exact", // owned apart from the wildcard
		"x.a.example.com/below":   "a/old",
		"x.x.a.example.com/below": "a/old",
	})
	w.tells("a/old", HostDisputed, "shop.example.com (b/young)", "*.a.example.com (b/wild)", "they are not served for them")
	w.tells("b/young", HostNotOwned, "shop.example.com (a/old)", "it is not served for them")
	w.tells("b/exact", HostNotOwned)
	// It still has a route: a kedify-proxy that hands a request over names the object.
	if w.Table().Route(namedObject("b/wild")) == nil {
		t.Error("an object that owns no host has no route for its own fleet to hand over to")
	}

	w.set("a/old", []string{"shop.example.com", "*.a.example.com"}, []string{"/", "/a"}, " b", "c ")
	w.goes(map[string]string{"shop.example.com/below": "b/young", "x.a.example.com/below": "b/wild"})
	w.set("a/old", []string{"shop.example.com", "*.a.example.com"}, []string{"/", "/a"}, "c", "Not A Namespace")
	w.goes(map[string]string{"shop.example.com/below": "a/old", "x.a.example.com/below": "a/old"})
	w.tells("a/old", InvalidAllowedNamespaces, `"Not A Namespace"`)
	w.set("a/old", []string{"shop.example.com", "*.a.example.com"}, []string{"/", "/a"}, "*")
	w.goes(map[string]string{"shop.example.com/below": "b/young"})
	w.set("a/old", []string{"shop.example.com", "*.a.example.com"}, []string{"/", "/a"})

	// The host goes to the namespace of the next oldest object. An object that is made
	// anew is the youngest.
	w.delete("a/old")
	w.goes(map[string]string{"shop.example.com/below": "b/young", "shop.example.com/own": "nobody", "x.a.example.com/below": "b/wild"})
	w.tells("a/own", HostNotOwned, "shop.example.com (b/young)")
	w.tells("b/young", HostDisputed, "shop.example.com (a/own)")
	delete(w.made, "a/old")
	w.set("a/old", []string{"shop.example.com"}, root)
	w.made["a/old"] = time.Unix(100, 0)
	w.set("a/old", []string{"shop.example.com"}, root)
	w.goes(map[string]string{"shop.example.com/": "nobody", "shop.example.com/below": "b/young"})
}

// An object for which there is no room is not served, but its namespace still owns its
// hosts.
func TestAnObjectThatIsLeftOutKeepsItsHosts(t *testing.T) {
	policy := small()
	policy.HostOwnership = true
	w := newTenants(t, policy)
	wild := []string{"*.example.com"}
	w.set("a/old", wild, numbered("/a%d", 10))
	w.set("b/young", wild, root)
	w.goes(map[string]string{"x.example.com/a1": "a/old", "x.example.com/": "nobody"})
	leftOut := map[string]string{"x.example.com/a1": "nobody", "x.example.com/": "nobody"}
	check := func() {
		t.Helper()
		w.goes(leftOut)
		if got := w.servedIn(Namespaces{"a": true, "b": true}, "x.example.com/a1"); got != "nobody" {
			t.Errorf("an Envoy of both namespaces sends its requests to %s", got)
		}
		w.tells("a/old", OverBudget, "served nothing")
		w.tells("a/old", HostDisputed, "b/young")
		w.tells("b/young", HostNotOwned, "a/old")
	}
	w.set("a/old", wild, numbered("/a%d", 11))
	check()
	w.set("a/old", []string{"no host"}, root) // its last good form has no room
	w.goes(leftOut)
	w.tells("b/young", HostNotOwned, "a/old")
	w.set("a/old", wild, numbered("/a%d", 11), "b")
	w.goes(map[string]string{"x.example.com/a1": "b/young"})
	w.set("a/old", wild, numbered("/a%d", 9))
	w.goes(map[string]string{"x.example.com/a1": "a/old", "x.example.com/": "nobody"})
	w.set("a/old", wild, numbered("/a%d", 11))
	check()
	w.delete("a/old")
	w.goes(map[string]string{"x.example.com/a1": "b/young"})
	w.tells("b/young", HostNotOwned)

	// As after an upgrade: the object was never served.
	w = newTenants(t, policy)
	w.set("a/old", wild, numbered("/a%d", 11))
	w.set("b/young", wild, root)
	check()
}

// Of objects of the same age, the one whose namespace, and then name, comes first owns
// the host.
func TestHostOwnershipOfOneAge(t *testing.T) {
	w := newTenants(t, owning())
	for _, name := range []string{"b/a", "a/b", "a/c"} {
		w.made[name] = time.Unix(1, 0)
		w.set(name, []string{"h.example.com"}, []string{"/" + strings.ReplaceAll(name, "/", "-")})
	}
	w.goes(map[string]string{"h.example.com/b-a": "nobody", "h.example.com/a-b": "a/b", "h.example.com/a-c": "a/c"})
	w.tells("a/b", HostDisputed, "b/a")
	w.tells("a/c", HostDisputed)
}

// Without host ownership, objects of several namespaces are served at the same host.
func TestWithoutHostOwnershipHostsAreShared(t *testing.T) {
	w := newTenants(t, DefaultPolicy())
	w.set("a/old", []string{"shop.example.com"}, root)
	w.set("b/young", []string{"shop.example.com"}, below)
	w.goes(map[string]string{"shop.example.com/below": "b/young"})
}

// Each fleet judges ownership by its own objects: objects of other namespaces own
// nothing there.
func TestFleetsJudgeHostsAmongTheirOwnObjects(t *testing.T) {
	w := newTenants(t, owning())
	w.set("a/old", []string{"shop.example.com"}, root)
	w.set("b/young", []string{"shop.example.com"}, below)
	w.set("c/youngest", []string{"shop.example.com"}, []string{"/below/c"})
	w.Commit()
	for _, tt := range []struct{ namespaces, request, want string }{
		{"b", "shop.example.com/below/c", "b/young"},
		{"c", "shop.example.com/below/c", "c/youngest"},
		{"b c", "shop.example.com/below/c", "b/young"},
		{"b c", "shop.example.com/", "nobody"},
		{"a c", "shop.example.com/below/c", "a/old"},
	} {
		fleet := make(Namespaces)
		for _, namespace := range strings.Fields(tt.namespaces) {
			fleet[namespace] = true
		}
		if got := w.servedIn(fleet, tt.request); got != tt.want {
			t.Errorf("a fleet of %s sends %s to %s, want %s", tt.namespaces, tt.request, got, tt.want)
		}
	}
}

// When an object changes whose host many others name, only that object and the owner
// are looked at, not all of them.
func TestAStrangersChangeCostsTheOthersNothing(t *testing.T) {
	cost := func(disallowed int) float64 {
		w := newTenants(t, owning())
		w.set("a/old", []string{"shop.example.com"}, root)
		for i := range disallowed {
			w.set(fmt.Sprintf("b/young-%d", i), []string{"shop.example.com"}, below)
		}
		w.Commit()
		paths := [][]string{{"/one"}, {"/two"}}
		i := 0
		return testing.AllocsPerRun(100, func() {
			i++
			w.set("b/young-7", []string{"shop.example.com"}, paths[i%2])
			w.Commit()
		})
	}
	if few, many := cost(10), cost(2000); many > 2*few {
		t.Errorf("a change costs %v allocations among 10 objects, %v among 2,000", few, many)
	}
}

// A route that is restored from what an Envoy reports keeps the namespaces that it
// allows.
func TestSavedRoutesKeepWhatTheyAllow(t *testing.T) {
	w := newTenants(t, owning())
	w.set("a/old", []string{"shop.example.com"}, root, "b")
	w.Commit()
	saved := w.Table().Route(namedObject("a/old")).Save()
	restored, err := saved.Restore(namedObject("a/old"))
	if err != nil || !slices.Equal(restored.spec.match.allowed, []string{"b"}) {
		t.Errorf("restored as %+v, %v", restored, err)
	}
	saved.Allowed = []string{"Not A Namespace"}
	if _, err := saved.Restore(namedObject("a/old")); err == nil {
		t.Error("a forged namespace is taken")
	}
}
