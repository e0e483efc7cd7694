package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// loadOf returns what a scaler that connects now is told of an object, such as demo/app;
// zeros if it is told nothing.
func (w *world) loadOf(object string) (requests, active, held int64) {
	w.t.Helper()
	server := httptest.NewServer(w.proxy.Admin(w.problems, func() error { return nil }))
	defer server.Close()
	defer server.CloseClientConnections()
	response, err := http.Get(server.URL + loadreport.Path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	var m loadreport.Message
	if err := json.NewDecoder(response.Body).Decode(&m); err != nil {
		w.t.Fatal(err)
	}
	if len(m.Sources) != 1 {
		w.t.Fatalf("told of %d proxies, want the interceptor", len(m.Sources))
	}
	for _, o := range m.Sources[0].Objects {
		if o.Namespace+"/"+o.Name == object {
			return o.Requests, o.Active, o.Held
		}
	}
	return 0, 0, 0
}

// toldOf waits until a scaler is told this of an object.
func (w *world) toldOf(object string, requests, active, held int64) {
	w.t.Helper()
	var last string
	want := fmt.Sprintf("%d requests, %d active, %d held", requests, active, held)
	defer func() {
		if w.t.Failed() {
			w.t.Logf("scalers are told of %s: %s, want %s", object, last, want)
		}
	}()
	eventually(w.t, "scalers are told of "+object+": "+want, func() bool {
		requests, active, held := w.loadOf(object)
		last = fmt.Sprintf("%d requests, %d active, %d held", requests, active, held)
		return last == want
	})
}

// Each request counts once, whatever becomes of it, and is under way no more in the end. One
// that is refused by a limit, that no object is for, or that Envoy has sent before does not
// count.
func TestEachRequestCountsOnce(t *testing.T) {
	const requests = 20
	for name, tt := range map[string]struct {
		settings func(*Settings)
		send     func(w *world) // sends the requests
		want     int64
	}{
		"answered": {nil, func(w *world) {
			w.service("stable", "", w.app(named("stable")))
			w.ask20(w.client, 200, nil)
		}, requests},
		"answered with an error": {nil, func(w *world) {
			w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
			w.ask20(w.client, 500, nil)
		}, requests},
		"sent to both Services": {nil, func(w *world) {
			w.service("stable", "", unused(w.t))
			w.service("canary", "", w.app(named("canary")))
			w.object("stable=50 canary=50")
			w.ask20(w.client, 200, nil)
		}, requests},
		"sent twice and not answered": {nil, func(w *world) {
			_, address := w.silent(always)
			w.service("stable", "", address)
			w.ask20(w.client, 502, nil)
		}, requests},
		"no time to wait": {func(s *Settings) { s.ConditionWait = 0 }, func(w *world) {
			w.ask20(w.client, 503, nil)
		}, requests},
		"no room to wait": {func(s *Settings) { s.MaxHeld = 0 }, func(w *world) {
			w.ask20(w.client, 503, nil)
		}, 0},
		"one over the limit": {func(s *Settings) { s.MaxUpstreamRequests = 1 }, func(w *world) {
			released := make(chan struct{})
			w.service("stable", "", w.app(hanging("stable", released)))
			w.commit()
			hangs := w.inBackground(w.client, w.request(http.MethodGet, "/hang", nil))
			eventually(w.t, "one is under way", func() bool { return w.proxy.limitUsed().Used == 1 })
			w.ask20(w.client, 503, nil)
			close(released)
			<-hangs
		}, 1},
		"short of memory": {nil, func(w *world) {
			released := make(chan struct{})
			w.service("stable", "", w.app(hanging("stable", released)))
			w.commit()
			hangs := w.inBackground(w.client, w.request(http.MethodGet, "/hang", nil))
			w.toldOf("demo/app", 1, 1, 0)
			w.proxy.memory.update(901, 1000)
			w.ask20(w.client, 503, nil)
			close(released)
			<-hangs
		}, 1},
		"for no object": {nil, func(w *world) {
			w.ask20(w.client, 404, func(r *http.Request) { r.Host = "other.test" })
		}, 0},
		"handed over by Envoy": {nil, func(w *world) {
			w.service("stable", "", w.app(named("stable")))
			w.ask20(w.fromEnvoy(w.serveFallback(), "demo/app", false, "stable"), 200, nil)
		}, requests},
		"second tries of Envoy": {nil, func(w *world) {
			w.service("stable", "", w.app(named("stable")))
			w.ask20(w.fromEnvoy(w.serveFallback(), "demo/app", false, "stable"), 200, func(r *http.Request) {
				r.Header[routes.SecondTryHeader] = []string{"false"}
			})
		}, 0},
		"that a client says to be second tries": {nil, func(w *world) {
			w.service("stable", "", w.app(named("stable")))
			w.ask20(w.client, 200, func(r *http.Request) { r.Header[routes.SecondTryHeader] = []string{"false"} })
		}, requests},
		"second tries of Envoy without room to wait": {func(s *Settings) { s.MaxHeld = 0 }, func(w *world) {
			w.ask20(w.fromEnvoy(w.serveFallback(), "demo/app", false, "stable"), 503, func(r *http.Request) {
				r.Header[routes.SecondTryHeader] = []string{"false"}
			})
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			settings := func(*Settings) {}
			if tt.settings != nil {
				settings = tt.settings
			}
			w := newWorld(t, settings)
			w.service("stable", "")
			w.object("")
			tt.send(w)
			w.toldOf("demo/app", tt.want, 0, 0)
		})
	}
}

// ask20 commits, and sends 20 requests that are answered with a code.
func (w *world) ask20(client *http.Client, code int, change func(*http.Request)) {
	w.t.Helper()
	w.commit()
	for range 20 {
		r := w.request(http.MethodGet, "/", nil)
		if change != nil {
			change(r)
		}
		res, err := client.Do(r)
		if err != nil {
			w.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != code {
			w.t.Fatalf("answered %s, want %d", res.Status, code)
		}
	}
}

// Requests are under way until their answers have ended, or their clients have left, over
// HTTP/1.1 and HTTP/2.
func TestLongRequestsAreUnderWay(t *testing.T) {
	for _, h2c := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", h2c), func(t *testing.T) {
			w := newWorld(t)
			released := make(chan struct{})
			release := sync.OnceFunc(func() { close(released) })
			t.Cleanup(release)
			w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush() // the header of the answer does not end it
				select {
				case <-released:
				case <-r.Context().Done():
				}
			}))
			w.object("")
			w.commit()
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetHTTP1(!h2c)
			transport.Protocols.SetUnencryptedHTTP2(h2c)
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			leaving, leave := context.WithCancel(t.Context())
			var answers []asked
			for i := range 50 {
				r := w.request(http.MethodGet, "/", nil)
				if i < 20 {
					r = r.WithContext(leaving)
				}
				answers = append(answers, w.inBackground(client, r))
			}
			w.toldOf("demo/app", 50, 50, 0)
			leave()
			w.toldOf("demo/app", 50, 30, 0)
			release()
			for _, answer := range answers[20:] {
				if got := <-answer; got != "200  " {
					t.Errorf("answered %q", got)
				}
			}
			w.toldOf("demo/app", 50, 0, 0)
		})
	}
}

// A tunnel is under way until it is closed.
func TestTunnelsAreUnderWay(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(echoUpgraded("s", "websocket")))
	w.object("")
	w.commit()
	c, _ := upgraded(t, w, "")
	w.toldOf("demo/app", 1, 1, 0)
	_ = c.conn.Close()
	w.toldOf("demo/app", 1, 0, 0)
}

// A request that ends in a panic, or whose answer breaks off, is under way no more.
func TestBrokenRequestsAreNotUnderWay(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
	}))
	w.object("")
	w.commit()
	if got := <-w.inBackground(w.client, w.request(http.MethodGet, "/", nil)); !strings.Contains(got, "EOF") {
		t.Errorf("answered %q, want one that breaks off", got)
	}
	w.toldOf("demo/app", 1, 0, 0)
	for route := range w.proxy.Table().Routes() {
		s, _ := w.proxy.find(route)
		s.chooser = nil
	}
	if res, body := w.get("/"); res.StatusCode != http.StatusInternalServerError {
		t.Errorf("answered %s %q, want the panic's 500", res.Status, body)
	}
	w.toldOf("demo/app", 2, 0, 0)
}

// Requests that wait are held, second tries of Envoy too, for the object that they belong
// to now.
func TestWaitingRequestsAreHeld(t *testing.T) {
	w := newWorld(t)
	w.cold("demo/one", "demo/two")
	leaving, leave := context.WithCancel(t.Context())
	defer leave()
	r := w.request(http.MethodGet, "/", nil).WithContext(leaving)
	r.Host = "one.demo"
	gone := w.inBackground(w.client, r)
	first := w.ask(w.client, "demo/one", 0)
	again := w.request(http.MethodGet, "/", nil)
	again.Header[routes.SecondTryHeader] = []string{"false"}
	second := w.inBackground(w.fromEnvoy(w.serveFallback(), "demo/one", false, "one"), again)
	w.toldOf("demo/one", 2, 3, 3)
	leave()
	<-gone
	w.toldOf("demo/one", 2, 2, 2)

	// The host moves to the other object.
	w.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: "one"})
	w.host("demo/two", "one.demo")
	w.commit()
	w.toldOf("demo/two", 1, 1, 1)
	if got := <-second; !strings.HasPrefix(got, "404") {
		t.Errorf("the second try, whose object is gone, is answered %q", got)
	}
	w.warm("demo/two", w.app(named("two")))
	if got := <-first; got != "200  two" {
		t.Errorf("answered %q", got)
	}
	w.toldOf("demo/two", 1, 0, 0)
}

// host gives an object that cold made another host.
func (w *world) host(object, host string) {
	name, _ := parseObject(object)
	port := int32(80)
	w.builder.SetHTTPScaledObject(&httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: types.UID(object)},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: []string{host}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: name.Name, Port: &port},
		},
	})
}

// The count of an object goes on over changes of its split, and when the object is deleted
// and made again while requests of it are under way. Otherwise it begins anew.
func TestTheCountOutlastsChanges(t *testing.T) {
	w := newWorld(t)
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	w.service("stable", "", w.app(hanging("stable", released)))
	w.service("canary", "", w.app(named("canary")))
	object := types.NamespacedName{Namespace: "demo", Name: "app"}
	w.object("stable=50 canary=50")
	w.ask20(w.client, 200, nil)
	w.object("stable=100")
	w.ask20(w.client, 200, nil)
	w.proxy.sweep()
	w.toldOf("demo/app", 40, 0, 0)
	hangs := w.inBackground(w.client, w.request(http.MethodGet, "/hang", nil))
	w.toldOf("demo/app", 41, 1, 0)
	w.builder.DeleteHTTPScaledObject(object)
	w.commit()
	w.proxy.sweep()
	w.toldOf("demo/app", 41, 1, 0)
	w.object("")
	w.ask20(w.client, 200, nil)
	w.toldOf("demo/app", 61, 1, 0)
	release()
	<-hangs
	w.toldOf("demo/app", 61, 0, 0)
	w.builder.DeleteHTTPScaledObject(object)
	w.commit()
	w.proxy.sweep()
	w.toldOf("demo/app", 0, 0, 0)
	w.object("")
	w.ask20(w.client, 200, nil)
	w.toldOf("demo/app", 20, 0, 0)
}

// What kedify-proxies report counts for an object that this interceptor has known only in an
// invalid form, too: another interceptor may have given them its last good form.
func TestReportsOfInvalidObjectsCount(t *testing.T) {
	w := newWorld(t)
	w.host("demo/app", "not a host")
	table, _ := w.builder.Commit()
	w.proxy.SetTable(table)
	app := types.NamespacedName{Namespace: "demo", Name: "app"}
	if table.Route(app) != nil || !w.proxy.Loads().Exists(app) {
		t.Error("the invalid object is served, or its requests do not count")
	}
	w.builder.DeleteHTTPScaledObject(app)
	table, _ = w.builder.Commit()
	w.proxy.SetTable(table)
	if w.proxy.Loads().Exists(app) {
		t.Error("requests of the deleted object count")
	}
}

// Counting allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", unused(t))
	w.object("")
	w.commit()
	handler := w.proxy.countLoad(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	recorder, r := withRecord(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://app.test/", nil))
	recordOf(r).served = w.proxy.servedFor(r)
	if n := testing.AllocsPerRun(100, func() { handler.ServeHTTP(recorder, r) }); n != 0 {
		t.Errorf("%v allocations for a request, want 0", n)
	}
}
