package proxy

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// A canary under steady load, from its first step to the promotion and back, while pods
// come, go and vanish without notice: each request is answered by a backend that has a
// share.
func TestNoRequestFailsWhileTheTableChanges(t *testing.T) {
	w := newWorld(t)
	apps := map[string][]string{}
	for _, side := range []string{"stable", "canary"} {
		for range 3 {
			apps[side] = append(apps[side], w.app(named(side)))
		}
	}
	apps["canary"] = append(apps["canary"], unused(t))
	w.service("stable", "", apps["stable"]...)
	w.service("canary", "", apps["canary"]...)
	w.object("stable=100 canary=0")
	w.commit()
	var over atomic.Bool
	var answered atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		r := w.request(http.MethodGet, "/", nil)
		wg.Go(func() {
			for !over.Load() {
				res, err := w.client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK || apps[string(body)] == nil {
					t.Errorf("%s %q %v", res.Status, body, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for step := range 200 {
		weight := step % 101
		w.object(fmt.Sprintf("stable=%d canary=%d", 100-weight, weight))
		// The last endpoint of the canary refuses connections; sometimes it is the only
		// one.
		w.service("canary", "", apps["canary"][step%4:]...)
		w.service("stable", "", apps["stable"][step%3:]...)
		w.commit()
		seen := answered.Load()
		eventually(t, "requests are answered", func() bool { return answered.Load() > seen+4 || t.Failed() })
		if t.Failed() {
			break
		}
	}
	over.Store(true)
	wg.Wait()
}

// The serving state of a route is dropped once the route is gone, even if the metrics
// are never scraped.
func TestRoutesThatAreGoneAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(named("ok")))
	port := int32(80)
	for i := range 500 {
		object := &httpv1alpha1.HTTPScaledObject{}
		object.Namespace, object.Name = "demo", fmt.Sprint("app", i)
		object.Spec.Hosts = []string{"app.test"}
		object.Spec.ScaleTargetRef = httpv1alpha1.ScaleTargetRef{Service: "stable", Port: &port}
		w.builder.SetHTTPScaledObject(object)
		w.commit()
		if _, body := w.get("/"); body != "ok" {
			t.Fatal(body)
		}
		w.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: object.Name})
	}
	if n := len(w.proxy.registry.byName); n > 70 {
		t.Errorf("%d routes are kept, and there is one", n)
	}
}
