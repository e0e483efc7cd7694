package watch

import (
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// LastSeen follows the watches: it stands still while one is refused, or gets no answer,
// even though the others are granted. What changed meanwhile is in the table first.
func TestLastSeen(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.api.setFault(forbid("watch", "endpointslices"))
	watching := w.start(Options{Renew: time.Second})
	w.becomes("a a:100:1")
	w.eventually("the other watches are renewed", func() bool { return w.api.count("watch", "services") >= 2 })
	if at := watching.LastSeen(); !at.IsZero() {
		t.Errorf("seen %v, without a watch of EndpointSlices", at)
	}
	w.api.setFault(nil)
	advances := func(when string) {
		t.Helper()
		from := time.Now()
		w.eventually("seen "+when, func() bool { return watching.LastSeen().After(from) })
	}
	advances("when all watches are granted")
	advances("while they are renewed")

	silent, release := make(chan struct{}, 100), make(chan struct{})
	var hangs atomic.Bool
	hangs.Store(true)
	w.api.setFault(func(_ http.ResponseWriter, verb, resource string) bool {
		if hangs.Load() && verb == "watch" && resource == "services" {
			silent <- struct{}{}
			<-release
			return true
		}
		return false
	})
	<-silent
	stands := watching.LastSeen()
	w.eventually("a watch without an answer is given up", func() bool { return w.log.count("does not answer") == 1 })
	asked := w.api.count("watch", "endpointslices")
	w.eventually("the other watches are renewed", func() bool { return w.api.count("watch", "endpointslices") >= asked+2 })
	if at := watching.LastSeen(); at.After(stands.Add(time.Second)) {
		t.Errorf("seen %v after the last watch of Services was granted", at.Sub(stands))
	}
	w.api.delete("httpscaledobjects", "demo", "a")
	w.app("b")
	hangs.Store(false)
	close(release)
	w.eventually("seen when it answers again", func() bool { return watching.LastSeen().After(stands.Add(time.Second)) })
	w.becomes("b b:100:1")
}

// A watch that is not renewed lasts as long as client-go asks for.
func TestWatchesAreNotRenewedByDefault(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	watching := w.start(Options{})
	w.becomes("a a:100:1")
	w.eventually("seen", func() bool { return !watching.LastSeen().IsZero() })
	if n := w.api.count("watch", "services"); n != 1 {
		t.Errorf("%d watches of Services, want 1", n)
	}
}

// ServiceEndpoints has all pods of the address Service, of both IP families, ready or not,
// and no pods of other Services.
func TestServiceEndpoints(t *testing.T) {
	for name, namespace := range map[string]string{"in a namespace that is watched": "", "in another namespace": "demo"} {
		t.Run(name, func(t *testing.T) { testServiceEndpoints(t, namespace) })
	}
}

func testServiceEndpoints(t *testing.T, watched string) {
	w := newWorld(t)
	w.app("a")
	slice := func(namespace, service, name string, addresses ...string) {
		var endpoints []object
		for _, address := range addresses {
			endpoints = append(endpoints, object{"addresses": []string{address}, "conditions": object{"ready": false}})
		}
		w.api.put("endpointslices", namespace, name, object{
			"metadata": object{"labels": object{"kubernetes.io/service-name": service}}, "endpoints": endpoints,
		})
	}
	slice("keda", "proxy", "proxy-1", "10.0.0.1", "10.0.0.2")
	slice("keda", "proxy", "proxy-2", "fd00::1")
	slice("keda", "other", "other-1", "10.0.0.9")
	slice("demo", "proxy", "proxy-1", "10.0.0.8")
	watching := w.start(Options{Namespace: watched, AddressService: types.NamespacedName{Namespace: "keda", Name: "proxy"}})
	becomes := func(want ...string) {
		t.Helper()
		var got []string
		defer func() {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
		}()
		w.eventually("these endpoints", func() bool {
			got = nil
			for _, address := range slices.SortedFunc(slices.Values(watching.ServiceEndpoints()), netip.Addr.Compare) {
				got = append(got, address.String())
			}
			return slices.Equal(want, got)
		})
	}
	becomes("10.0.0.1", "10.0.0.2", "fd00::1")
	slice("keda", "proxy", "proxy-1", "10.0.0.3")
	becomes("10.0.0.3", "fd00::1")
	w.api.delete("endpointslices", "keda", "proxy-2")
	becomes("10.0.0.3")
	w.becomes("a a:100:1")
}

// An interceptor that may not read the EndpointSlices of its own namespace knows no others,
// and serves.
func TestServiceEndpointsRefused(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.api.setNamespaceFault(func(rw http.ResponseWriter, verb, resource, namespace string) bool {
		return namespace == "keda" && forbid(verb, "endpointslices")(rw, verb, resource)
	})
	watching := w.start(Options{Namespace: "demo", AddressService: types.NamespacedName{Namespace: "keda", Name: "proxy"}})
	w.becomes("a a:100:1")
	w.eventually("seen", func() bool { return !watching.LastSeen().IsZero() })
	if others := watching.ServiceEndpoints(); len(others) > 0 {
		t.Errorf("endpoints %v", others)
	}
}
