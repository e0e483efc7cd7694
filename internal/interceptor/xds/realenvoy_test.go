package xds

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pires/go-proxyproto"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// fleet is a world with a real Envoy.
type fleet struct {
	*world
	xds   string // address
	stop  func() // stops the server
	port  uint16
	envoy *envoytest.Envoy
	http  *http.Client
	// earlier tells that the Envoy has a bootstrap without load_stats_config.
	earlier bool
}

func newFleet(t testing.TB, change ...func(*Server)) *fleet {
	t.Helper()
	envoytest.Path(t)
	f := &fleet{port: freeport.Get(t), http: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	f.world = newWorld(t, envoy.Options{Address: netip.MustParseAddr("127.0.0.1"), HTTPPort: f.port}, change...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.xds = l.Addr().String()
	f.stop = serve(t, f.server, l)
	t.Cleanup(f.http.CloseIdleConnections)
	return f
}

// start starts the Envoy and waits until it serves.
func (f *fleet) start(sotw bool, namespaces ...string) {
	f.t.Helper()
	bootstrap, err := envoy.Bootstrap(envoy.BootstrapOptions{
		XDSAddress: f.xds, AdminAddress: fmt.Sprint("127.0.0.1:", freeport.Get(f.t)), AdminPort: freeport.Get(f.t), SotW: sotw, Namespaces: namespaces,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if f.earlier {
		bootstrap = regexp.MustCompile(`(?m)^  load_stats_config:\n(    .*\n)*`).ReplaceAll(bootstrap, nil)
	}
	f.envoy = envoytest.Start(f.t, bootstrap)
	f.envoy.WaitReady()
}

// restart starts another interceptor at the same address, with the current table.
func (f *fleet) restart() {
	f.t.Helper()
	f.restartWith(f.server.render.Translator)
}

func (f *fleet) restartWith(translator *envoy.Translator) {
	f.t.Helper()
	f.server = f.newServer(translator)
	f.server.Update(f.builder.Table(), routes.Changes{})
	l, err := net.Listen("tcp", f.xds)
	if err != nil {
		f.t.Fatal(err)
	}
	f.stop = serve(f.t, f.server, l)
}

// get returns the answer to a request for a host, or the code when it is not 200.
func (f *fleet) get(host string) string { return f.getAt(f.port, host) }

func (f *fleet) getAt(port uint16, host string) string {
	r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Host = host
	response, err := f.http.Do(r)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Sprint(response.StatusCode)
	}
	return string(body)
}

func (f *fleet) waitFor(host, answer string) {
	f.t.Helper()
	eventually(f.t, host+" answered by "+answer, func() bool { return f.get(host) == answer })
}

func (f *fleet) pushes() map[string]int {
	all := make(map[string]int)
	for _, name := range kindNames {
		all[name] = count(f.server.metrics.pushes.WithLabelValues(name))
	}
	return all
}

func (f *fleet) nacks() int {
	n := 0
	for _, name := range kindNames {
		n += count(f.server.metrics.nacks.WithLabelValues(name))
	}
	return n
}

func count(c prometheus.Counter) int {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		panic(err)
	}
	return int(m.GetCounter().GetValue())
}

// load sends requests for a host all the time, until stop is called, which returns how
// many requests got each answer (see get).
func (f *fleet) load(host string) (stop func() map[string]int) {
	var mu sync.Mutex
	answers := make(map[string]int)
	var done atomic.Bool
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for !done.Load() {
				answer := f.get(host)
				mu.Lock()
				answers[answer]++
				mu.Unlock()
			}
		})
	}
	return func() map[string]int {
		done.Store(true)
		workers.Wait()
		return answers
	}
}

// requireAnswersOf fails the test for each answer that is not from one of these backends.
func requireAnswersOf(t *testing.T, answers map[string]int, backends ...string) {
	t.Helper()
	for answer, n := range answers {
		if !slices.Contains(backends, answer) {
			t.Errorf("%d requests were answered %q", n, answer)
		}
	}
}

// both runs a test in both protocols.
func both(t *testing.T, test func(t *testing.T, sotw bool)) {
	for _, sotw := range []bool{false, true} {
		t.Run(map[bool]string{false: "delta", true: "sotw"}[sotw], func(t *testing.T) { test(t, sotw) })
	}
}

func TestRealEnvoySyncs(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		for _, name := range []string{"a", "b"} {
			f.service(name, backend(t, name))
			f.object(name)
		}
		f.commit()
		f.start(sotw)
		f.waitFor("a.example.com", "a")
		f.waitFor("b.example.com", "b")
		if got := f.get("c.example.com"); got != "404" {
			t.Errorf("an unknown host is answered %s", got)
		}
		f.service("c", backend(t, "c"))
		f.object("c")
		f.commit()
		f.waitFor("c.example.com", "c")
		f.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: "a"})
		f.commit()
		f.waitFor("a.example.com", "404")
		eventually(t, "its cluster removed", func() bool { return f.envoy.Stat("cluster_manager.cluster_removed") == 1 })
		if n := f.nacks(); n != 0 {
			t.Errorf("%d responses were refused", n)
		}
	})
}

func TestRealEnvoyWaitsForTheFirstTable(t *testing.T) {
	f := newFleet(t)
	f.service("a", backend(t, "a"))
	f.object("a")
	bootstrap, err := envoy.Bootstrap(envoy.BootstrapOptions{XDSAddress: f.xds, AdminAddress: fmt.Sprint("127.0.0.1:", freeport.Get(t)), AdminPort: freeport.Get(t)})
	if err != nil {
		t.Fatal(err)
	}
	f.envoy = envoytest.Start(t, bootstrap)
	f.envoy.Wait("its stream", func() error {
		if f.envoy.Stat("control_plane.connected_state") != 1 {
			return errors.New("not connected")
		}
		return nil
	})
	if f.pushes()["cluster"] != 0 {
		t.Error("something was sent before there is a table")
	}
	f.commit()
	f.waitFor("a.example.com", "a")
}

func TestRealEnvoyWeightChange(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		f.service("stable", backend(t, "stable"))
		f.service("canary", backend(t, "canary"))
		f.service("other", backend(t, "other"))
		f.object("other")
		f.object("app", "stable=100", "canary=0")
		f.commit()
		f.start(sotw)
		f.waitFor("app.example.com", "stable")
		before := f.pushes()

		f.object("app", "stable=0", "canary=100")
		f.commit()
		f.waitFor("app.example.com", "canary")
		after := f.pushes()
		before["routes"]++
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("pushes after one change of weights (-one of routes +got):\n%s", diff)
		}
	})
}

func TestRealEnvoySplitAndBack(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		f.service("app", backend(t, "app"))
		f.service("canary", backend(t, "canary"))
		f.object("app")
		f.commit()
		f.start(sotw)
		f.waitFor("app.example.com", "app")
		stop := f.load("app.example.com")
		created := func() int { return f.envoy.Stat("cluster.demo/app/app.upstream_cx_total") }
		eventually(t, "connections", func() bool { return f.envoy.Stat("cluster.demo/app/app.upstream_rq_total") > 200 })
		connections := created()
		for round := range 3 {
			f.object("app", "app=50", "canary=50")
			f.commit()
			canary := f.envoy.Stat("cluster.demo/app/canary.upstream_rq_total")
			eventually(t, "canary requests", func() bool { return f.envoy.Stat("cluster.demo/app/canary.upstream_rq_total") > canary+50 })
			f.object("app")
			f.commit()
			eventually(t, "the canary's cluster removed", func() bool { return f.envoy.Stat("cluster_manager.cluster_removed") == round+1 })
		}
		answers := stop()
		t.Log(answers)
		requireAnswersOf(t, answers, "app", "canary")
		// With 4 clients and two workers, there are 4 connections at most to
		// begin with.
		if now := created(); now > max(connections, 4)+4 {
			t.Errorf("the stable cluster had %d connections and has made %d", connections, now)
		}
		if f.envoy.Stat("cluster_manager.cluster_added") != 3+3 { // two of the bootstrap, app's, and the canary's three times
			t.Errorf("clusters were added %d times", f.envoy.Stat("cluster_manager.cluster_added"))
		}
		if n := f.envoy.Stat("cluster_manager.cluster_modified"); n != 0 {
			t.Errorf("%d clusters were modified", n)
		}
	})
}

func TestRealEnvoyFallsBack(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		fallback := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fallback") }))
		_ = fallback.Listener.Close()
		fallback.Listener = &proxyproto.Listener{Listener: l}
		fallback.Start()
		t.Cleanup(fallback.Close)
		f.server.SetFallback([]netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())})

		app := backend(t, "app")
		f.service("app", app)
		f.object("app")
		f.commit()
		f.start(sotw)
		f.waitFor("app.example.com", "app")
		before := f.pushes()
		f.service("app")
		f.commit()
		f.waitFor("app.example.com", "fallback")
		f.service("app", app)
		f.commit()
		f.waitFor("app.example.com", "app")
		before["endpoints"] += 2
		if diff := cmp.Diff(before, f.pushes()); diff != "" {
			t.Errorf("pushes after endpoints went and came (-want +got):\n%s", diff)
		}
		// A backend that never had an endpoint must not keep Envoy waiting.
		f.service("cold")
		f.object("cold")
		f.commit()
		f.waitFor("cold.example.com", "fallback")
	})
}

func TestRealEnvoyOutlivesTheInterceptor(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		for _, name := range []string{"a", "b"} {
			f.service(name, backend(t, name))
			f.object(name)
		}
		f.service("canary", backend(t, "canary"))
		f.commit()
		f.start(sotw)
		f.waitFor("a.example.com", "a")
		stop := f.load("a.example.com")
		f.stop()
		eventually(t, "the stream's end", func() bool { return f.envoy.Stat("control_plane.connected_state") == 0 })
		if got := f.get("b.example.com"); got != "b" {
			t.Errorf("without an interceptor b is answered %s", got)
		}

		// Another interceptor, which has no more than the current table.
		start := func() {
			f.restart()
			eventually(t, "a new stream", func() bool { return f.envoy.Stat("control_plane.connected_state") == 1 })
		}
		start()
		f.object("b", "b=0", "canary=100")
		f.commit()
		f.waitFor("b.example.com", "canary")
		got := f.pushes()
		if sotw && got["endpoints"] == 2 {
			// The change came before the Envoy had said what it has: it may have
			// had other clusters, which would wait for their endpoints.
			got["endpoints"] = 1
		}
		want := map[string]int{"cluster": 1, "endpoints": 1, "routes": 1, "listener": 0, "secret": 0}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pushes to an Envoy that has everything else (-want +got):\n%s", diff)
		}

		// A change while no interceptor is running.
		f.stop()
		f.object("b")
		if _, changes := f.builder.Commit(); changes.Empty() {
			t.Fatal("nothing changed")
		}
		start()
		f.waitFor("b.example.com", "b")
		requireAnswersOf(t, stop(), "a")
		if n := f.envoy.Stat("cluster_manager.cluster_modified"); n != 0 {
			t.Errorf("%d clusters were modified", n)
		}
	})
}

// An interceptor that starts with other settings sends the listener and the clusters
// again, with their endpoints, and nothing else; no request is lost.
func TestRealEnvoyTakesOtherSettings(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t)
		for _, name := range []string{"a", "b"} {
			f.service(name, backend(t, name))
			f.object(name)
		}
		f.commit()
		f.start(sotw)
		f.waitFor("a.example.com", "a")
		f.waitFor("b.example.com", "b")
		stop := f.load("a.example.com")
		f.stop()
		eventually(t, "the stream's end", func() bool { return f.envoy.Stat("control_plane.connected_state") == 0 })
		c := connections()
		c.MaxHeaderBytes *= 2
		c.UserTimeout, c.SendTimeout = time.Minute, time.Minute // other socket options
		f.restartWith(newTranslator(t, envoy.Options{Address: netip.MustParseAddr("127.0.0.1"), HTTPPort: f.port, Connections: c}))
		eventually(t, "clusters and listener modified", func() bool {
			return f.envoy.Stat("cluster_manager.cluster_modified") == 2 && f.envoy.Stat("cluster_manager.warming_clusters") == 0 &&
				f.envoy.Stat("listener_manager.listener_modified")+f.envoy.Stat("listener_manager.listener_in_place_updated") > 0
		})
		// Envoy serves with the new settings.
		r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", f.port), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "b.example.com"
		r.Header.Set("X-Large", strings.Repeat("x", 100<<10))
		eventually(t, "a larger header taken", func() bool {
			response, err := (&http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
			if err != nil {
				return false
			}
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK
		})
		want := map[string]int{"cluster": 1, "endpoints": 1, "routes": 0, "listener": 1, "secret": 0}
		if diff := cmp.Diff(want, f.pushes()); diff != "" {
			t.Errorf("pushes (-want +got):\n%s", diff)
		}
		requireAnswersOf(t, stop(), "a")
		if n := f.nacks(); n != 0 {
			t.Errorf("%d responses were refused", n)
		}
	})
}

func TestRealEnvoyOfSomeNamespaces(t *testing.T) {
	f := newFleet(t)
	for _, namespace := range []string{"red", "green", "blue"} {
		f.serviceIn(namespace, "app", "", backend(t, namespace))
		f.objectIn(namespace, "app", func(o *httpv1alpha1.HTTPScaledObject) {
			o.Spec.Hosts = []string{namespace + ".example.com"}
		})
	}
	f.serviceIn("blue", "any", "", backend(t, "any"))
	f.objectIn("blue", "any", func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.Hosts = []string{"*"} })
	f.commit()
	f.start(false, "red", "green")
	f.waitFor("red.example.com", "red")
	f.waitFor("green.example.com", "green")
	for _, host := range []string{"blue.example.com", "other.example.com"} {
		if got := f.get(host); got != "404" {
			t.Errorf("%s of another namespace is answered %s", host, got)
		}
	}
	before := f.pushes()
	f.objectIn("blue", "app", func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.Hosts = []string{"navy.example.com"} })
	f.serviceIn("blue", "app", "", backend(t, "navy"))
	f.commit()
	f.objectIn("red", "app", func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.Hosts = []string{"pink.example.com"} })
	f.commit()
	f.waitFor("pink.example.com", "red")
	before["routes"]++
	if diff := cmp.Diff(before, f.pushes()); diff != "" {
		t.Errorf("pushes (-want +got):\n%s", diff)
	}
	if config, err := f.envoy.Get("/config_dump?include_eds"); err != nil || strings.Contains(config, "blue/") {
		t.Errorf("the Envoy knows of another namespace (%v)", err)
	}
}

// absurd sets a timeout that is a valid duration, but too long for Envoy.
func absurd(o *httpv1alpha1.HTTPScaledObject) {
	timeout := "2562047h47m16s"
	o.Spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: &timeout}
}

// unchecked makes a server send invalid objects, too.
func unchecked(s *Server) { s.validate = func(*routes.Route) error { return nil } }

func TestRealEnvoyRefusesOneObject(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		f := newFleet(t, unchecked)
		var names []string
		for i := range 20 {
			name := fmt.Sprint("app", i)
			names = append(names, name)
			f.service(name, backend(t, name))
			f.object(name)
		}
		anyHost := func(o *httpv1alpha1.HTTPScaledObject) {
			o.Spec.Hosts, o.Spec.PathPrefixes = []string{"*", "app3.example.com"}, []string{"/any"}
		}
		f.service("any", backend(t, "any"))
		f.objectIn("demo", "any", anyHost)
		f.service("canary", backend(t, "canary"))
		f.commit()
		f.start(sotw)
		f.waitFor("app0.example.com", "app0")

		// One object in every virtual host and one in its own become invalid,
		// together with good changes.
		f.objectIn("demo", "any", func(o *httpv1alpha1.HTTPScaledObject) { anyHost(o); absurd(o) })
		f.objectIn("demo", "app7", absurd)
		for _, name := range names[10:] {
			f.object(name, name+"=0", "canary=100")
		}
		f.commit()
		for _, name := range names[10:] {
			f.waitFor(name+".example.com", "canary")
		}
		eventually(t, "both told of", func() bool { o := f.told.objects(); return o == "any app7" || o == "app7 any" })
		if got := f.get("app7.example.com"); got != "app7" {
			t.Errorf("what was accepted before is answered %s", got)
		}
		if got := f.nacks(); got > 20 {
			t.Errorf("%d responses were refused until two objects were found", got)
		}
		refused := f.nacks()

		// Other objects get their changes, even in a virtual host with a refused one.
		f.object("app3", "app3=0", "canary=100")
		f.commit()
		f.waitFor("app3.example.com", "canary")
		if f.nacks() != refused {
			t.Error("what was refused was sent again")
		}

		// A refused object is tried again once it changes.
		f.object("app7", "app7=0", "canary=100")
		f.commit()
		f.waitFor("app7.example.com", "canary")
		eventually(t, "one told of", func() bool { return f.told.objects() == "any" })
		f.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: "any"})
		f.commit()
		eventually(t, "none told of", func() bool { return f.told.objects() == "" })
	})
}
