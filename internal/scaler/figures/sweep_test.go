package figures

import (
	"fmt"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// Streams of an Envoy without load reports leave nothing, and neither do pods that never
// reported.
func TestNothingIsKeptOfProxiesThatDoNotReport(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := New(func() time.Time { return now })
	for i := range 50 {
		pod := fmt.Sprint("shop/kedify-proxy-", i)
		f.SetExpected([]string{"a"}, map[string][]string{"shop": {pod, "10.0.1.1"}})
		s := loadreport.Source{ID: fmt.Sprint("none-", i), Address: "10.0.1.1", WithoutLoadReports: true}
		f.Apply("a", loadreport.Message{Sources: []loadreport.Source{s}})
		s.Ended = true
		f.Apply("a", loadreport.Message{Sources: []loadreport.Source{s}})
	}
	if len(f.proxies) != 3 || len(f.sources) != 0 || len(f.proxies[proxyKey{false, "10.0.1.1"}].sources) != 0 {
		t.Errorf("%d proxies and %d sources are kept, %d of them the Envoy's; want the three that are expected",
			len(f.proxies), len(f.sources), len(f.proxies[proxyKey{false, "10.0.1.1"}].sources))
	}
}

// What nothing is known of any more takes no memory.
func TestSweep(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := New(func() time.Time { return now })
	f.SetExpected([]string{"a"}, nil)
	for i := range 50 {
		object := loadreport.Object{Namespace: "shop", Name: fmt.Sprint("app-", i), Requests: 5}
		gone := object
		gone.Gone = true
		source := loadreport.Source{ID: fmt.Sprint("lrs-", i), Address: fmt.Sprint("10.0.0.", i), Objects: []loadreport.Object{object}}
		own := loadreport.Source{ID: "own", Objects: []loadreport.Object{object}}
		f.Apply("a", loadreport.Message{Sources: []loadreport.Source{own}})
		now = now.Add(time.Second)
		f.Apply("a", loadreport.Message{Sources: []loadreport.Source{source}})
		source.Ended, source.Objects, own.Objects = true, nil, []loadreport.Object{gone}
		f.Apply("a", loadreport.Message{Sources: []loadreport.Source{own, source}})
	}
	asked := Key{Namespace: "shop", Name: "app-0"}
	_, cancel := f.Subscribe(asked)
	if len(f.objects) < 2 || len(f.proxies) != 51 {
		t.Fatalf("%d objects and %d proxies before, want many", len(f.objects), len(f.proxies))
	}
	for range 62 {
		now = now.Add(time.Minute)
		f.Apply("a", loadreport.Message{})
		f.Apply("a", loadreport.Message{})
	}
	if len(f.objects) != 1 || len(f.proxies) != 1 || len(f.sources) != 1 {
		t.Errorf("%d objects, %d proxies and %d sources are left, want the one that is subscribed to, and the interceptor's",
			len(f.objects), len(f.proxies), len(f.sources))
	}
	cancel()
	now = now.Add(2 * time.Minute)
	f.Apply("a", loadreport.Message{})
	if len(f.objects) != 0 {
		t.Errorf("%d objects are left", len(f.objects))
	}
}
