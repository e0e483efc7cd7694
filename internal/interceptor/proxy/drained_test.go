package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
)

// drains makes a Service whose only endpoint terminates, and is listed as serving still.
func (w *world) drains(name, address string) {
	w.t.Helper()
	w.service(name, "", address)
	at := netip.MustParseAddrPort(address)
	slice := endpointSlice(name, 0, at)
	yes, no := true, false
	slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	w.builder.SetEndpointSlice(slice)
}

// A pod that drains gets requests when there is no other. If it does not listen any more,
// they wait for a ready one as if it were not there.
func TestRequestsWaitWhenTheLastPodHasGone(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t)
			w.drains("stable", fmt.Sprint("127.0.0.1:", freeport.Get(t)))
			w.object("stable=80 canary=20")
			w.commit()
			body := strings.Repeat("x", 5)
			if method == http.MethodGet {
				body = ""
			}
			answered := make(chan string, 1)
			r := w.request(method, "/", strings.NewReader(body))
			go func() {
				res, err := w.client.Do(r)
				if err != nil {
					answered <- err.Error()
					return
				}
				defer res.Body.Close()
				got, _ := io.ReadAll(res.Body)
				answered <- res.Status + " " + string(got)
			}()
			eventually(t, "the request is held", func() bool { return w.held() == 1 })
			w.toldOf("demo/app", 1, 1, 1)
			w.service("stable", "")
			w.commit()
			w.service("stable", "", w.app(echo))
			w.commit()
			if got := <-answered; got != "200 OK "+body {
				t.Errorf("answered %s, want 200 OK %s", got, body)
			}
		})
	}

	t.Run("in vain", func(t *testing.T) {
		w := newWorld(t)
		w.drains("stable", fmt.Sprint("127.0.0.1:", freeport.Get(t)))
		w.object("", func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
			wait := "50ms"
			spec.Timeouts = &httpv1alpha1.Timeouts{ConditionWait: &wait}
		})
		w.commit()
		if res, _ := w.get("/"); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s, want 503", res.Status)
		}
	})

	t.Run("that drains and listens", func(t *testing.T) {
		w := newWorld(t)
		w.drains("stable", w.app(named("draining")))
		w.object("")
		w.commit()
		if res, body := w.get("/"); res.StatusCode != http.StatusOK || body != "draining" {
			t.Errorf("%s %q, want it from the pod that drains", res.Status, body)
		}
	})
}
