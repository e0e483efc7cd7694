package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// While memory is short, an application that hangs gets no more requests, and those of
// others in its namespace and in other namespaces are served. When there is hardly any
// left, only other namespaces are served, and then nobody.
func TestAHangingApplicationLeavesMemoryForOthers(t *testing.T) {
	w := newWorld(t)
	released := make(chan struct{})
	w.cold("greedy/hangs", "greedy/fine", "other/fine")
	address := w.app(hanging("here", released))
	t.Cleanup(func() { close(released) })
	for _, object := range []string{"greedy/hangs", "greedy/fine", "other/fine"} {
		w.warm(object, address)
	}
	for range 20 {
		r := w.request(http.MethodGet, "/hang", nil)
		r.Host = "hangs.greedy"
		w.inBackground(w.client, r)
	}
	eventually(t, "they are under way", func() bool {
		return value(t, w.proxy, "interceptor_requests_in_flight", "greedy", "hangs", "hangs") == 20
	})
	for _, tt := range []struct {
		used   uint64
		served string
	}{
		{900, "greedy/hangs greedy/fine other/fine"},
		{901, "greedy/fine other/fine"},
		{926, "other/fine"},
		{951, ""},
		{860, "greedy/fine other/fine"}, // until a twentieth is free
		{850, "greedy/hangs greedy/fine other/fine"},
	} {
		w.proxy.memory.update(tt.used, 1000)
		for range 3 {
			var served []string
			for _, object := range []string{"greedy/hangs", "greedy/fine", "other/fine"} {
				switch got := <-w.ask(w.client, object, 0); {
				case got == "200  here":
					served = append(served, object)
				case !strings.HasPrefix(got, "503 5 the interceptor is short of memory"):
					t.Errorf("%s is answered %q", object, got)
				}
			}
			if got := strings.Join(served, " "); got != tt.served {
				t.Errorf("with %d of 1000 in use served are %q, want %q", tt.used, got, tt.served)
			}
		}
	}
	if n := value(t, w.proxy, "interceptor_requests_total", "greedy", "hangs", "hangs", "503"); n == 0 {
		t.Error("the object's refusals are not in its metric")
	}
}

// Requests that are over count no more, and objects without requests are forgotten.
func TestRequestsUnderWayAreForgotten(t *testing.T) {
	u := underWay{all: newShare(nil)}
	var m memory
	var begun []*share
	for i := range 100 {
		name := types.NamespacedName{Namespace: fmt.Sprint(i % 7), Name: fmt.Sprint(i % 30)}
		begun = append(begun, u.begin(name, &m))
	}
	u.sweep()
	if n := u.all.used[inRequests]; n != 100 || len(u.all.parts) != 7 {
		t.Errorf("%d requests of %d namespaces are under way, want 100 of 7", n, len(u.all.parts))
	}
	for _, object := range begun {
		u.end(object)
	}
	u.sweep()
	if u.all.used != (amount{}) || len(u.all.parts)+len(u.all.byName) != 0 {
		t.Errorf("%v are under way, of %d namespaces", u.all.used, len(u.all.parts))
	}
}

// However many objects a namespace has, it keeps no other from an equal share.
func TestNamespacesShareMemory(t *testing.T) {
	u := underWay{all: newShare(nil)}
	var m memory
	object := func(namespace string, i int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}
	}
	for i := range 1000 {
		u.begin(object("many", i), &m)
	}
	m.update(930, 1000)
	if u.begin(object("many", 1001), &m) != nil {
		t.Error("another object of the namespace that has most is served")
	}
	for i := range 900 {
		if u.begin(object("few", i%3), &m) == nil {
			t.Fatalf("the namespace has %d requests under way, and is refused", i)
		}
	}
}

// While memory is short for another reason than requests, such as a large table, they are
// served: those of an application with many times as many, too, and of the only one.
func TestFewRequestsAreServedWhileMemoryIsShort(t *testing.T) {
	u := underWay{all: newShare(nil)}
	var m memory
	m.update(930<<20, 1000<<20)
	popular, other := types.NamespacedName{Namespace: "popular", Name: "app"}, types.NamespacedName{Namespace: "other", Name: "app"}
	var underWay []*share
	for i := range 200 {
		name := popular
		if i > 100 && i%10 == 0 {
			name = other
		}
		object := u.begin(name, &m)
		if object == nil {
			t.Fatalf("a request of %s is refused with %d under way", name, len(underWay))
		}
		if underWay = append(underWay, object); len(underWay) > 100 { // the oldest is over
			u.end(underWay[0])
			underWay = underWay[1:]
		}
	}
	// With many under way, those of others are served, and its own are not.
	for u.begin(popular, &m) != nil {
		if u.all.used[inRequests] > 1000 {
			t.Fatal("an application takes what memory there is")
		}
	}
	if u.begin(other, &m) == nil {
		t.Error("the other application is refused, too")
	}
}
