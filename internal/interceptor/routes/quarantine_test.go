package routes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A panic over one object becomes a problem of that object, which is served as before.
// Everything else follows what changed.
func TestAPanicOverOneObjectLeavesTheOthersAlone(t *testing.T) {
	bad, good := benchObject(1, 20), benchObject(2, 20)
	name, other := types.NamespacedName{Namespace: bad.Namespace, Name: bad.Name}, types.NamespacedName{Namespace: good.Namespace, Name: good.Name}
	for what, tt := range map[step]struct {
		reason Reason
		canary uint32 // of the object that panics, after its split was changed from 20 to 40
		hosts  string
	}{
		// Only what the step reads stays as it was.
		readSplit: {reason: InvalidSplit, canary: 20, hosts: "new.example.com"},
		readSpec:  {reason: InternalError, canary: 40, hosts: bad.Spec.Hosts[0]},
		makeRoute: {reason: InternalError, canary: 20, hosts: bad.Spec.Hosts[0]},
	} {
		t.Run(string(what), func(t *testing.T) {
			b := NewBuilder()
			var panics []string
			b.OnPanic(func(kind string, name types.NamespacedName, cause any, stack []byte) {
				panics = append(panics, fmt.Sprint(kind, " ", name, ": ", cause))
				if !strings.Contains(string(stack), "quarantine_test.go") {
					t.Errorf("the stack does not show where it was:\n%s", stack)
				}
			})
			for i := 1; i <= 3; i++ {
				for _, side := range []string{"stable", "canary"} {
					b.SetService(benchService(i, side))
					b.SetEndpointSlice(benchSlice(i, side, 1))
				}
			}
			b.SetHTTPScaledObject(bad)
			b.SetHTTPScaledObject(good)
			b.Commit()
			before := b.Table().Route(name)

			b.fault = func(at step, is types.NamespacedName) {
				if at == what && is != other {
					panic("index out\nof range")
				}
			}
			changed := benchObject(1, 40)
			changed.Spec.Hosts = []string{"new.example.com"}
			new := benchObject(3, 20)
			for range 2 { // an object changes many times
				changed.Generation++
				b.SetHTTPScaledObject(changed)
				b.SetHTTPScaledObject(benchObject(2, 50))
				b.SetHTTPScaledObject(new)
				b.SetEndpointSlice(benchSlice(1, "stable", 2+int(changed.Generation)))
				b.Commit()
			}
			table := b.Table()
			if r := table.Route(other); r.Backends[1].Weight != 50 || len(table.ProblemsOf(other)) > 0 {
				t.Errorf("another object has weight %d, want 50; problems %v", r.Backends[1].Weight, table.ProblemsOf(other))
			}
			r := table.Route(name)
			if r == nil || r.Hosts()[0] != tt.hosts || r.Backends[1].Weight != tt.canary || !r.Split {
				t.Fatalf("the object is served as %+v, want host %s and weight %d", r, tt.hosts, tt.canary)
			}
			if got := len(r.Backends[0].Ready); got != 4 || len(before.Backends[0].Ready) != 1 {
				t.Errorf("%d endpoints, want 4: those of now", got)
			}
			if r := table.Lookup(tt.hosts, "/", nil); r == nil || r.Name != name {
				t.Errorf("a request for %s goes to %v", tt.hosts, r)
			}
			problems := table.ProblemsOf(name)
			if len(problems) != 1 || problems[0].Reason != tt.reason || !strings.Contains(problems[0].Message, "(index out of range)") || !strings.Contains(problems[0].Message, "last good") {
				t.Errorf("problems %v, want one %s", problems, tt.reason)
			}
			never := types.NamespacedName{Namespace: new.Namespace, Name: new.Name}
			if r := table.Route(never); (r != nil) != (what == readSplit) || len(table.ProblemsOf(never)) != 1 {
				t.Errorf("an object without a last good form is served as %v, with problems %v", r, table.ProblemsOf(never))
			}
			if len(panics) != 2 || !slices.Contains(panics, "HTTPScaledObject "+name.String()+": index out\nof range") {
				t.Errorf("told of %q; want each object once", panics)
			}

			b.fault = nil
			changed.Spec.PathPrefixes = []string{"/new"}
			changed.Annotations = benchObject(1, 60).Annotations
			b.SetHTTPScaledObject(changed)
			_, changes := b.Commit()
			if r := b.Table().Route(name); r.Hosts()[0] != "new.example.com" || r.Backends[1].Weight != 60 || len(changes.Resolved) != 1 || len(b.Table().ProblemsOf(name)) > 0 {
				t.Errorf("after the panic, %+v with %v resolved", r, changes.Resolved)
			}
		})
	}
}

// An object that is made anew under the name of another takes over nothing of it.
func TestAPanicOverAnObjectMadeAnew(t *testing.T) {
	b := NewBuilder()
	o := benchObject(1, 20)
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	o.UID = "old"
	b.SetHTTPScaledObject(o)
	b.Commit()
	b.fault = func(at step, _ types.NamespacedName) {
		if at == makeRoute {
			panic("again")
		}
	}
	o = o.DeepCopy()
	o.UID = "new"
	b.SetHTTPScaledObject(o)
	table, changes := b.Commit()
	if r := table.Route(name); r != nil || len(changes.Routes) != 1 {
		t.Errorf("served as %v", r)
	}
	b.DeleteHTTPScaledObject(name)
	if table, _ := b.Commit(); len(table.Problems()) > 0 || len(b.panics) > 0 {
		t.Errorf("of an object that is deleted there is left: %v %v", table.Problems(), b.panics)
	}
}

func TestAPanicOverAServiceLeavesItAsItWas(t *testing.T) {
	b := NewBuilder()
	o := benchObject(1, 20)
	b.SetHTTPScaledObject(o)
	for _, side := range []string{"stable", "canary"} {
		b.SetService(benchService(1, side))
		b.SetEndpointSlice(benchSlice(1, side, 1))
	}
	before, _ := b.Commit()
	var told []string
	b.OnPanic(func(kind string, _ types.NamespacedName, _ any, _ []byte) { told = append(told, kind) })
	b.fault = func(step, types.NamespacedName) { panic("again") }
	gone := benchService(1, "stable")
	gone.Spec.Ports = nil
	b.SetService(gone)
	b.SetEndpointSlice(benchSlice(1, "canary", 2))
	b.fault = nil
	if after, changes := b.Commit(); after != before || !changes.Empty() {
		t.Errorf("changed: %+v", changes)
	}
	if !slices.Equal(told, []string{"Service", "EndpointSlice"}) {
		t.Errorf("told of %v", told)
	}
}

// A panic while an object is compared with others becomes a problem of that object. It
// and all others are served as they ask.
func TestAPanicWhileObjectsAreCompared(t *testing.T) {
	for _, what := range []step{compareHosts, compareSites, tellProblems} {
		t.Run(string(what), func(t *testing.T) {
			w := newTenants(t, owning())
			w.set("a/bad", []string{"bad.example.com"}, root)
			w.set("b/old", []string{"h.example.com"}, root)
			w.Commit()
			w.fault = func(at step, is types.NamespacedName) {
				if at == what && is.Name == "bad" {
					panic("again")
				}
			}
			told := 0
			w.OnPanic(func(kind string, name types.NamespacedName, _ any, _ []byte) { told++ })
			w.set("a/bad", []string{"new.example.com"}, below)
			w.set("b/young", []string{"h.example.com"}, root)
			w.set("c/c", []string{"h.example.com"}, below)
			w.goes(map[string]string{"new.example.com/below": "a/bad", "bad.example.com/": "nobody", "h.example.com/": "b/old"})
			w.tells("a/bad", InternalError, "(again)", "served as it asks")
			w.tells("b/young", Shadowed, "b/old")
			w.tells("c/c", HostNotOwned, "b/old")
			if told != 1 {
				t.Errorf("told of %d panics", told)
			}
			w.fault = nil
			w.set("a/bad", []string{"newer.example.com"}, below)
			w.goes(map[string]string{"newer.example.com/below": "a/bad"})
			w.tells("a/bad", InternalError)
		})
	}
}

// If charging an object panics, the object stays as it was, and its namespace keeps its
// room.
func TestAPanicWhileAnObjectIsCharged(t *testing.T) {
	w := newTenants(t, small())
	w.set("a/bad", nil, numbered("/a%d", 5))
	w.Commit()
	w.fault = func(at step, is types.NamespacedName) {
		if at == chargeBudget && is.Namespace == "a" {
			panic("again")
		}
	}
	w.set("a/bad", nil, numbered("/b%d", 6))
	w.set("a/new", nil, numbered("/n%d", 6))
	w.set("b/b", nil, numbered("/c%d", 10))
	w.goes(map[string]string{"x/a4": "a/bad", "x/b1": "nobody", "x/n1": "nobody", "x/c9": "b/b"})
	w.tells("a/bad", InternalError, "(again)", "last good form")
	w.tells("a/new", InternalError, "(again)", "served nothing")
	w.fault = nil
	w.set("a/bad", nil, numbered("/b%d", 7))
	w.set("a/new", nil, numbered("/n%d", 3))
	w.goes(map[string]string{"x/b6": "a/bad", "x/n1": "a/new"})
	w.tells("a/bad", InternalError)
}

// An object that cannot be removed stays until it can be, and does not hold up others.
func TestAPanicOverADeletedObject(t *testing.T) {
	w := newTenants(t, owning())
	w.set("a/bad", []string{"h.example.com"}, root)
	w.Commit()
	w.fault = func(at step, is types.NamespacedName) {
		if at == removeRoute {
			panic("again")
		}
	}
	w.delete("a/bad")
	w.set("b/b", []string{"b.example.com", "h.example.com"}, root)
	w.goes(map[string]string{"b.example.com/": "b/b", "h.example.com/": "a/bad"})
	w.fault = nil
	w.goes(map[string]string{"h.example.com/": "b/b"})
	if len(w.objects) != 1 {
		t.Errorf("there are %d objects", len(w.objects))
	}
	w.tells("b/b", HostNotOwned)
}
