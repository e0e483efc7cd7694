package routes

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

var benchSizes = []int{100, 1000, 10000}

func benchObject(i int, canary int32) *httpv1alpha1.HTTPScaledObject {
	port := int32(80)
	return &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("team-", i%100), Name: fmt.Sprint("app-", i), CreationTimestamp: metav1.Time{Time: time.Unix(int64(i), 0)},
			Annotations: map[string]string{weightedbackends.Annotation: weightedbackends.Format([]weightedbackends.Backend{
				{Service: fmt.Sprint("app-", i, "-stable"), Weight: 100 - canary}, {Service: fmt.Sprint("app-", i, "-canary"), Weight: canary},
			})},
		},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: []string{fmt.Sprint("app-", i, ".example.com")}, PathPrefixes: []string{"/", "/api/v1"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: fmt.Sprint("app-", i, "-stable"), Port: &port},
		},
	}
}

func benchService(i int, side string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("team-", i%100), Name: fmt.Sprint("app-", i, "-", side)},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

func benchSlice(i int, side string, endpoints int) *discoveryv1.EndpointSlice {
	name, port := "http", int32(8080)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("team-", i%100), Name: fmt.Sprint("app-", i, "-", side, "-x"),
			Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprint("app-", i, "-", side)},
		},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	for e := range endpoints {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", i/256, i%256, e)}})
	}
	return s
}

func benchBuilder(n int) *Builder {
	b := NewBuilder()
	for i := range n {
		b.SetHTTPScaledObject(benchObject(i, 20))
		for _, side := range []string{"stable", "canary"} {
			b.SetService(benchService(i, side))
			b.SetEndpointSlice(benchSlice(i, side, 2))
		}
	}
	b.Commit()
	return b
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range benchSizes {
		table := benchBuilder(n).Table()
		header := map[string][]string{"Accept": {"*/*"}}
		for name, r := range map[string]request{
			"root":       {host: "app-7.example.com", path: "/"},
			"deep":       {host: "app-42.example.com:8080", path: "/api/v1/things/1"},
			"upper case": {host: "App-42.example.com", path: "/"},
		} {
			b.Run(fmt.Sprintf("%s/objects=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if table.Lookup(r.host, r.path, header) == nil {
						b.Fatal("no route")
					}
				}
			})
		}
		b.Run(fmt.Sprintf("none/objects=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if table.Lookup("nobody.example.org", "/api/v1", header) != nil {
					b.Fatal("a route")
				}
			}
		})
	}
}

// BenchmarkLookupByHeader measures the one lookup whose cost grows: objects of the same
// host and path that differ only in headers are tried one after the other.
func BenchmarkLookupByHeader(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		builder := NewBuilder()
		for i := range n {
			o := benchObject(i, 20)
			o.Spec.Hosts = []string{"app.example.com"}
			o.Spec.Headers = []httpv1alpha1.Header{{Name: "x-tenant", Value: fmt.Sprint(i)}}
			builder.SetHTTPScaledObject(o)
		}
		table, _ := builder.Commit()
		header := map[string][]string{"X-Tenant": {fmt.Sprint(n - 1)}}
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if table.Lookup("app.example.com", "/", header) == nil {
					b.Fatal("no route")
				}
			}
		})
	}
}

// BenchmarkUpdate measures one change and its Commit, in tables of different sizes. The
// changes cycle through a hundred objects from all over the table. If they cycled
// through all objects, each would be out of the processor's caches in a table of ten
// thousand, and none in a table of a hundred.
func BenchmarkUpdate(b *testing.B) {
	updates := map[string]func(*Builder, int, int){
		"weight": func(builder *Builder, i, n int) {
			builder.SetHTTPScaledObject(benchObject(i%100*(n/100), int32(i/100%2+30)))
		},
		"endpoints": func(builder *Builder, i, n int) {
			builder.SetEndpointSlice(benchSlice(i%100*(n/100), "canary", 3+i/100%2))
		},
		"hosts": func(builder *Builder, i, n int) {
			o := benchObject(i%100*(n/100), 20)
			o.Spec.Hosts[0] = fmt.Sprint(i/100%2, o.Spec.Hosts[0])
			builder.SetHTTPScaledObject(o)
		},
		"delete and make": func(builder *Builder, i, n int) {
			o := benchObject(i%100*(n/100), 20)
			builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
			builder.Commit()
			builder.SetHTTPScaledObject(o)
		},
		"nothing": func(builder *Builder, i, n int) {
			builder.SetHTTPScaledObject(benchObject(i%100*(n/100), 20))
		},
	}
	for name, update := range updates {
		for _, n := range benchSizes {
			b.Run(fmt.Sprintf("%s/objects=%d", name, n), func(b *testing.B) {
				builder := benchBuilder(n)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					update(builder, i, n)
					if _, changes := builder.Commit(); changes.Empty() != (name == "nothing") {
						b.Fatalf("changes of %s: %+v", name, changes)
					}
					i++
				}
			})
		}
	}
}

// BenchmarkBuild measures how a table is made from nothing, as at start, and the memory
// that the Builder and its table take.
func BenchmarkBuild(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			before := heap()
			var builder *Builder
			for b.Loop() {
				builder = benchBuilder(n)
			}
			b.ReportMetric(float64(heap()-before)/float64(n), "heap-B/object")
			runtime.KeepAlive(builder)
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Lookup may run for every request, so it allocates nothing.
func TestLookupDoesNotAllocate(t *testing.T) {
	b := NewBuilder()
	o := benchObject(1, 20)
	o.Spec.Hosts = []string{"*.example.com"}
	o.Spec.Headers = []httpv1alpha1.Header{{Name: "x-tenant", Value: "b"}}
	b.SetHTTPScaledObject(o)
	b.SetHTTPScaledObject(benchObject(2, 20))
	table, _ := b.Commit()
	header := map[string][]string{"X-Tenant": {"a", "b"}}
	for _, host := range []string{"app-2.example.com:8080", "tenant.app-3.example.com."} {
		allocations := testing.AllocsPerRun(100, func() {
			if table.Lookup(host, "/api/v1/a/very/long/path/that/fits/nowhere", header) == nil {
				t.Fatal("no route")
			}
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations", host, allocations)
		}
	}
}

// The old table and the new one share what did not change: the endpoints when weights
// change, the hosts and paths when anything else does.
func TestTablesShareWhatDidNotChange(t *testing.T) {
	b := benchBuilder(100)
	before := b.Table()
	o := benchObject(3, 50)
	wait := "1s"
	o.Spec.Timeouts = &httpv1alpha1.Timeouts{ConditionWait: &wait}
	b.SetHTTPScaledObject(o)
	after, _ := b.Commit()
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	was, is := before.Route(name), after.Route(name)
	if was == is || was.Backends[1].Weight == is.Backends[1].Weight {
		t.Fatalf("nothing changed: %+v", is)
	}
	if &was.Backends[1].Ready[0] != &is.Backends[1].Ready[0] {
		t.Error("endpoints that did not change are there twice")
	}
	if was.spec.match != is.spec.match || before.hosts != after.hosts {
		t.Error("hosts and paths that did not change are there twice")
	}
	other := types.NamespacedName{Namespace: "team-4", Name: "app-4"}
	if before.Route(other) == nil || before.Route(other) != after.Route(other) {
		t.Error("a route that did not change is there twice")
	}
}

// The work for a change does not grow with the table. Allocations are counted instead
// of time: at ten thousand objects a change allocates little more than at a hundred
// (the tries are two levels deeper).
func TestUpdateDoesNotGrowWithTheTable(t *testing.T) {
	cost := func(n int) float64 {
		b := benchBuilder(n)
		i := 0
		return testing.AllocsPerRun(200, func() {
			i++
			b.SetHTTPScaledObject(benchObject(3, int32(i%100)))
			b.Commit()
		})
	}
	small, large := cost(100), cost(10000)
	if large > 2*small {
		t.Errorf("a change costs %v allocations at 100 objects, %v at 10,000", small, large)
	}
}
