package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// answered decodes an answer in testdata.
func answered[T any](t testing.TB, data []byte) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestRoutesOfARealEnvoy(t *testing.T) {
	canary := []servedWeight{{"demo-stable", 80}, {"demo-canary", 20}}
	dump := answered[routesDump](t, testdata(t, "routes.json"))
	for prefix, want := range map[string][]servedSplit{
		"shop/demo/":     {{"demo.example.com", canary}, {"*", canary}},
		"shop/demo-api/": {{"demo.example.com", []servedWeight{{"demo-stable", 1}}}},
		"shop/dem/":      nil,
		"shop/demo.v2/":  nil, // it has a cluster, and no route
	} {
		if diff := cmp.Diff(want, dump.over(prefix), cmp.AllowUnexported(servedSplit{}, servedWeight{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", prefix, diff)
		}
	}
	if got := answered[routesDump](t, testdata(t, "inline.json")).over("shop/demo/"); len(got) > 0 {
		t.Errorf("an answer with nothing in it: %v", got)
	}
	clusters := answered[clustersDump](t, testdata(t, "clusters.json")).services("shop/demo/")
	if slices.Sort(clusters); !slices.Equal(clusters, []string{"demo-canary", "demo-stable"}) {
		t.Errorf("clusters %v", clusters)
	}
	for text, want := range map[string]string{
		string(testdata(t, "stats.json")):                                       "",
		`{"stats":[{"name":"control_plane.connected_state","value":1}]}`:        "",
		`{"stats":[{"name":"control_plane.connected_state","value":0}]}`:        "it is not connected to the interceptor",
		`{"stats":[{"name":"listener_manager.lds.update_rejected","value":2}]}`: "it has refused 2 updates, and its log says why",
	} {
		if got := answered[statsDump](t, []byte(text)).says(); got != want {
			t.Errorf("%s says %q, want %q", text, got, want)
		}
	}
}

func TestDifference(t *testing.T) {
	split := func(weights ...int32) []weightedbackends.Backend {
		names := []string{"stable", "canary", "experiment"}
		var backends []weightedbackends.Backend
		for i, w := range weights {
			backends = append(backends, weightedbackends.Backend{Service: names[i], Weight: w})
		}
		return backends
	}
	on := func(domain string, weights ...servedWeight) servedSplit { return servedSplit{domain, weights} }
	for name, c := range map[string]struct {
		want []weightedbackends.Backend
		got  []servedSplit
		says string
	}{
		"equal":                       {split(80, 20), []servedSplit{on("a", servedWeight{"stable", 80}, servedWeight{"canary", 20})}, ""},
		"in another order":            {split(80, 20), []servedSplit{on("a", servedWeight{"canary", 20}, servedWeight{"stable", 80})}, ""},
		"in proportion":               {split(80, 20), []servedSplit{on("a", servedWeight{"stable", 4}, servedWeight{"canary", 1})}, ""},
		"large":                       {split(2147483646, 1), []servedSplit{on("a", servedWeight{"stable", 2147483646}, servedWeight{"canary", 1})}, ""},
		"one backend":                 {split(1), []servedSplit{on("a", servedWeight{"stable", 1})}, ""},
		"stable at 0 left out":        {split(0, 100), []servedSplit{on("a", servedWeight{"canary", 1})}, ""},
		"stable at 0":                 {split(0, 100), []servedSplit{on("a", servedWeight{"stable", 0}, servedWeight{"canary", 100})}, ""},
		"other weights":               {split(80, 20), []servedSplit{on("a", servedWeight{"stable", 95}, servedWeight{"canary", 5})}, "serves stable=95,canary=5 for host a, expected stable=80,canary=20"},
		"one of two hosts behind":     {split(80, 20), []servedSplit{on("a", servedWeight{"stable", 80}, servedWeight{"canary", 20}), on("b", servedWeight{"stable", 1})}, "serves all to stable for host b, expected stable=80,canary=20"},
		"no host":                     {split(80, 20), []servedSplit{on("", servedWeight{"stable", 1})}, "serves all to stable, expected stable=80,canary=20"},
		"a split that should be over": {split(1), []servedSplit{on("a", servedWeight{"stable", 80}, servedWeight{"canary", 20})}, "serves stable=80,canary=20 for host a, expected all to stable"},
		"the wrong Service":           {split(1), []servedSplit{on("a", servedWeight{"canary", 1})}, "serves all to canary for host a, expected all to stable"},
		"a backend too many":          {split(80, 20), []servedSplit{on("a", servedWeight{"stable", 80}, servedWeight{"canary", 20}, servedWeight{"experiment", 5})}, "serves stable=80,canary=20,experiment=5"},
		"a backend too few":           {split(75, 20, 5), []servedSplit{on("a", servedWeight{"stable", 75}, servedWeight{"canary", 20})}, "expected stable=75,canary=20,experiment=5"},
		"no route":                    {split(80, 20), nil, "has no route to it, expected stable=80,canary=20"},
		"nothing has a weight":        {split(80, 20), []servedSplit{on("a", servedWeight{"stable", 0}, servedWeight{"canary", 0})}, "serves stable=0,canary=0"},
	} {
		if got := difference(c.want, c.got); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
	}
}

func proxyPod(name, phase string) corev1.Pod {
	return parse[corev1.Pod](`
metadata: {name: ` + name + `, namespace: shop, labels: {theirs: kedify-proxy}}
spec: {containers: [{name: envoy, resources: {}, ports: [{name: admin, containerPort: 19901}]}]}
status: {phase: ` + phase + `, conditions: [{type: Ready, status: "True"}]}
`)
}

func interceptorPod(name string) corev1.Pod {
	return parse[corev1.Pod](`
metadata: {name: ` + name + `, namespace: keda, labels: {app: interceptor}}
spec: {containers: [{name: interceptor, resources: {}}]}
status: {phase: Running}
`)
}

// withProxies adds kedify-proxies and interceptors that serve the canary.
func (s *snapshot) withProxies() {
	s.objects.services.Value = append(s.objects.services.Value, parse[corev1.Service](`
metadata: {name: kedify-proxy-admin, namespace: shop}
spec: {selector: {theirs: kedify-proxy}, ports: [{port: 9901, targetPort: admin}]}
`))
	s.proxies.objects = slices.Clone(s.objects.httpScaledObjects.Value)
	s.proxies.kedifyProxies.service.Value = "Service shop/kedify-proxy-admin"
	s.proxies.interceptors.service.Value = "Service keda/keda-add-ons-http-interceptor-admin"
	split := servedSplit{weights: []servedWeight{{"demo-stable", 80}, {"demo-canary", 20}}}
	for _, name := range []string{"interceptor-1", "interceptor-2"} {
		s.proxies.interceptors.pods = append(s.proxies.interceptors.pods, proxyLook{pod: podProxy{Pod: interceptorPod(name), port: 9090},
			have: map[string]served{"demo": {splits: []servedSplit{split}}}})
	}
	split.domain = "demo.example.com"
	for _, name := range []string{"kedify-proxy-1", "kedify-proxy-2"} {
		s.proxies.kedifyProxies.pods = append(s.proxies.kedifyProxies.pods, proxyLook{pod: podProxy{Pod: proxyPod(name, "Running"), port: 19901},
			have: map[string]served{"demo": {splits: []servedSplit{split}, clusters: []string{"demo-stable", "demo-canary"}}}})
	}
}

func interceptorAnswer(stable, canary int) string {
	return fmt.Sprintf(`{"generation": 7, "routes": [
  {"namespace": "shop", "name": "demo", "hosts": ["demo.example.com"], "pathPrefixes": ["/"], "backends": [
    {"service": "demo-stable", "weight": %d, "share": 80, "protocol": "HTTP/1.1", "ready": ["10.0.0.1:8080"]},
    {"service": "demo-canary", "weight": %d, "share": 20, "protocol": "HTTP/1.1", "ready": []}]},
  {"namespace": "other", "name": "demo", "hosts": [], "pathPrefixes": [], "backends": [{"service": "x", "weight": 1, "share": 1, "protocol": "HTTP/1.1", "ready": []}]}],
  "problems": [{"namespace": "shop", "name": "demo", "reason": "BadSplit", "message": "keeps the last good split"}]}`, stable, canary)
}

// change changes what the first kedify-proxy has.
func (s *snapshot) change(what func(l *proxyLook, have *served)) {
	l := &s.proxies.kedifyProxies.pods[0]
	have := l.have["demo"]
	what(l, &have)
	l.have["demo"] = have
}

func TestProxiesInAHealthyCluster(t *testing.T) {
	s := healthy()
	s.withProxies()
	var seen []string
	for _, r := range look(s) {
		if r.Status != OK {
			t.Errorf("%+v", r)
		}
		if r.Check == "kedify-proxy-split" || r.Check == "interceptor-split" {
			seen = append(seen, r.Check+" "+r.Object+" "+r.Message)
		}
	}
	want := []string{
		"kedify-proxy-split HTTPScaledObject shop/demo 2 pods of kedify-proxy: demo-stable=80,demo-canary=20, as asked",
		"interceptor-split HTTPScaledObject shop/demo 2 pods of the interceptor: demo-stable=80,demo-canary=20, as asked",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestProxyFaults(t *testing.T) {
	const first, interceptor = "Pod shop/kedify-proxy-1", "Pod keda/interceptor-1"
	other := []servedSplit{{"demo.example.com", []servedWeight{{"demo-stable", 95}, {"demo-canary", 5}}}}
	refused := podProxy{Pod: proxyPod("kedify-proxy-1", "Running")}.target().failed("get", errors.New("connection refused"))
	withProxies := func() snapshot {
		s := healthy()
		s.withProxies()
		return s
	}
	testFaultsOf(t, withProxies, faults{
		"other weights": {
			func(s *snapshot) { s.change(func(_ *proxyLook, have *served) { have.splits = other }) },
			[]finding{{"kedify-proxy-split", Failure, first, []string{"serves demo-stable=95,demo-canary=5 for host demo.example.com, expected demo-stable=80,demo-canary=20", "describe httpscaledobject demo", "port-forward pod/kedify-proxy-1 19901"}}},
		},
		"not connected": {
			func(s *snapshot) {
				s.change(func(_ *proxyLook, have *served) {
					have.splits, have.says = other, "it is not connected to the interceptor"
				})
			},
			[]finding{{"kedify-proxy-split", Failure, first, []string{"expected demo-stable=80,demo-canary=20; it is not connected to the interceptor", "xDS Service"}}},
		},
		"not configured yet": {
			func(s *snapshot) {
				s.change(func(l *proxyLook, _ *served) {
					l.pod.Status.Conditions[0].Status, l.err = corev1.ConditionFalse, refused
				})
			},
			[]finding{{"kedify-proxy-split", Failure, first, []string{"not ready, and does not answer at port 19901", "xDS Service"}}},
		},
		"ready and out of reach": {
			func(s *snapshot) { s.change(func(l *proxyLook, _ *served) { l.err = refused }) },
			[]finding{{"kedify-proxy-split", Warning, first, []string{"could not look", "connection refused"}}},
		},
		"a cluster that is missing": {
			func(s *snapshot) {
				s.change(func(_ *proxyLook, have *served) { have.clusters = []string{"demo-stable"} })
			},
			[]finding{{"kedify-proxy-split", Failure, first, []string{"has no active cluster shop/demo/demo-canary"}}},
		},
		"a kedify-proxy that does not run": {
			func(s *snapshot) { s.proxies.kedifyProxies.pods[0].pod.Pod = proxyPod("kedify-proxy-1", "Pending") },
			[]finding{{"kedify-proxy-split", Warning, first, []string{"is not ready: Pending", "describe pod kedify-proxy-1"}}},
		},
		"no kedify-proxy behind the Service": {
			func(s *snapshot) { s.proxies.kedifyProxies.pods = nil },
			[]finding{{"kedify-proxy-split", Warning, "Service shop/kedify-proxy-admin", []string{"selects no pod"}}},
		},
		"may not look at pods": {
			func(s *snapshot) {
				for i := range s.proxies.kedifyProxies.pods {
					s.proxies.kedifyProxies.pods[i].err = forbidden("get", "pods/proxy", "shop", "kedify-proxy-1")
					s.proxies.interceptors.pods[i].err = forbidden("get", "pods/proxy", "keda", "interceptor-1")
				}
			},
			[]finding{
				{"kedify-proxy-split", Warning, "Namespace shop", []string{"need get on pods/proxy", "kubectl auth can-i get pods --subresource=proxy -n shop"}},
				{"interceptor-split", Warning, "Namespace keda", []string{"need get on pods/proxy", "-n keda"}},
			},
		},
		"an interceptor with other weights": {
			func(s *snapshot) {
				s.proxies.interceptors.pods[0].have["demo"] = answered[interceptorRoutes](t, []byte(interceptorAnswer(80, 5))).of(*s.httpso())
			},
			[]finding{{"interceptor-split", Failure, interceptor, []string{"serves demo-stable=80,demo-canary=5, expected", "it says: keeps the last good split"}}},
		},
		"an interceptor that is not ready": {
			func(s *snapshot) {
				l := &s.proxies.interceptors.pods[0]
				l.pod.Status.Conditions, l.err = nil, refused
			},
			[]finding{{"interceptor-split", Failure, interceptor, []string{"is not ready, and does not answer at port 9090 → see what it says of the object"}}},
		},
		"no interceptor": {
			func(s *snapshot) { s.proxies.interceptors.pods = nil },
			[]finding{{"interceptor-split", Warning, "Service keda/keda-add-ons-http-interceptor-admin", []string{"selects no pod"}}},
		},
		"may not find the interceptors": {
			func(s *snapshot) {
				s.proxies.interceptors = proxiesSnapshot{service: read[string]{Err: forbidden("get", "services", "keda", "keda-add-ons-http-interceptor-admin")}}
			},
			[]finding{{"interceptor-split", Warning, httpso, []string{"need get on services keda-add-ons-http-interceptor-admin in namespace keda"}}},
		},
		"interceptors of Kedify's": {
			func(s *snapshot) {
				for i := range s.proxies.interceptors.pods {
					s.proxies.interceptors.pods[i].foreign, s.proxies.interceptors.pods[i].have = true, nil
				}
			},
			nil,
		},
		"a split that no proxy can serve is told once": {
			func(s *snapshot) {
				s.httpso().Annotations[weightedbackends.Annotation] = "- service"
				s.proxies.objects[0].Annotations = s.httpso().Annotations
				s.change(func(_ *proxyLook, have *served) { have.splits = other })
			},
			[]finding{{"annotation", Failure, httpso, []string{"cannot be read"}}},
		},
	})
}

// envoyOf answers as the Envoy of testdata does, with weights that a test sets.
func envoyOf(t *testing.T, canary *atomic.Int32, asked *atomic.Int32) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		name := ""
		switch resource := r.URL.Query().Get("resource"); {
		case r.URL.Path == "/stats":
			name = "stats.json"
		case resource == dynamicRoutes:
			name = "routes.json"
			asked.Add(1)
		case resource == inlineRoutes:
			name = "inline.json"
		case resource == activeClusters && r.URL.Query().Get("name_regex") == "shop/demo/.*":
			name = "clusters.json"
		default:
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = fmt.Fprint(w, strings.ReplaceAll(string(testdata(t, name)), `"weight": 20`, fmt.Sprintf(`"weight": %d`, canary.Load())))
	})
}

func serveProxies(t *testing.T) (a *apiServer, canary, asked *atomic.Int32) {
	t.Helper()
	s := healthy()
	s.withProxies()
	a = serve(t, s)
	canary, asked = new(atomic.Int32), new(atomic.Int32)
	canary.Store(20)
	envoy := envoyOf(t, canary, asked)
	interceptor := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/routes" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprint(w, interceptorAnswer(80, 20))
	})
	a.pods = map[string]http.Handler{
		"shop/kedify-proxy-1:19901": envoy, "shop/kedify-proxy-2:19901": envoy,
		"keda/interceptor-1:9090": interceptor, "keda/interceptor-2:9090": interceptor,
	}
	a.more = map[string]any{
		"/api/v1/namespaces/shop/services/kedify-proxy-admin": s.objects.service("kedify-proxy-admin"),
		"/api/v1/namespaces/keda/services/keda-add-ons-http-interceptor-admin": parse[corev1.Service](`
metadata: {name: keda-add-ons-http-interceptor-admin, namespace: keda}
spec: {selector: {app: interceptor}, ports: [{port: 9090, targetPort: 9090}]}
`),
		"/api/v1/namespaces/keda/pods":                                       map[string]any{"items": []corev1.Pod{interceptorPod("interceptor-1"), interceptorPod("interceptor-2")}},
		"/apis/http.keda.sh/v1alpha1/namespaces/shop/httpscaledobjects/demo": *s.httpso(),
	}
	return a, canary, asked
}

func TestRunLooksAtTheProxies(t *testing.T) {
	proxyResults := func(t *testing.T, a *apiServer, opts Options) []string {
		t.Helper()
		opts.Namespace = "shop"
		var found []string
		for _, r := range runOn(t, a, opts).Results {
			if r.Status != OK || r.Check == "kedify-proxy-split" || r.Check == "interceptor-split" {
				found = append(found, r.Check+" "+r.Status.String())
			}
		}
		return found
	}
	good := []string{"kedify-proxy-split ok", "interceptor-split ok"}

	t.Run("as they should be", func(t *testing.T) {
		a, _, asked := serveProxies(t)
		if got := proxyResults(t, a, Options{}); !slices.Equal(got, good) {
			t.Errorf("got %v", got)
		}
		if asked.Load() != 2 {
			t.Errorf("two Envoys were asked %d times for their routes", asked.Load())
		}
	})
	t.Run("behind at first", func(t *testing.T) {
		a, canary, asked := serveProxies(t)
		canary.Store(5)
		envoy := a.pods["shop/kedify-proxy-1:19901"]
		a.pods["shop/kedify-proxy-1:19901"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Load() > 4 {
				canary.Store(20)
			}
			envoy.ServeHTTP(w, r)
		})
		if got := proxyResults(t, a, Options{patience: time.Minute}); !slices.Equal(got, good) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("behind for good", func(t *testing.T) {
		a, canary, _ := serveProxies(t)
		canary.Store(5)
		want := []string{"kedify-proxy-split failure", "kedify-proxy-split failure", "interceptor-split ok"}
		if got := proxyResults(t, a, Options{patience: time.Millisecond}); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("forbidden", func(t *testing.T) {
		a, _, _ := serveProxies(t)
		a.forbidden = []string{"/api/v1/namespaces/shop/pods/*", "/api/v1/namespaces/keda/pods/*"}
		want := []string{"kedify-proxy-split warning", "interceptor-split warning"}
		if got := proxyResults(t, a, Options{}); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("out of reach", func(t *testing.T) {
		a, _, _ := serveProxies(t)
		delete(a.pods, "shop/kedify-proxy-2:19901")
		want := []string{"kedify-proxy-split warning", "kedify-proxy-split ok", "interceptor-split ok"}
		if got := proxyResults(t, a, Options{}); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("no JSON", func(t *testing.T) {
		a, _, _ := serveProxies(t)
		a.pods["shop/kedify-proxy-2:19901"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") })
		want := []string{"kedify-proxy-split warning", "kedify-proxy-split ok", "interceptor-split ok"}
		if got := proxyResults(t, a, Options{}); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("interceptors elsewhere", func(t *testing.T) {
		a, _, _ := serveProxies(t)
		if got := proxyResults(t, a, Options{InterceptorNamespace: "elsewhere"}); !slices.Equal(got, good[:1]) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("Kedify's interceptors", func(t *testing.T) {
		a, _, _ := serveProxies(t)
		for pod := range a.pods {
			if strings.HasPrefix(pod, "keda/") {
				a.pods[pod] = http.NotFoundHandler()
			}
		}
		if got := proxyResults(t, a, Options{}); !slices.Equal(got, good[:1]) {
			t.Errorf("got %v", got)
		}
	})
}

func TestPodGetIsBounded(t *testing.T) {
	a, _, _ := serveProxies(t)
	a.pods["shop/large:1"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 1<<20)
		for range 65 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	c, err := newCluster(&rest.Config{Host: a.URL})
	if err != nil {
		t.Fatal(err)
	}
	large := podProxy{Pod: interceptorPod("large"), port: 1, cluster: c}
	large.Namespace = "shop"
	if data, err := large.get(t.Context(), "/config_dump", nil); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") || data != nil {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// A kedify-proxy whose port 9901 has no room for a connection is asked again until it has.
func TestPodGetAsksAPodAgainThatClosesTheConnection(t *testing.T) {
	for _, cause := range []string{"EOF", "read tcp 10.0.0.1:41234->10.0.0.2:9901: read: connection reset by peer"} {
		a, _, _ := serveProxies(t)
		asked := 0
		a.pods["shop/full:1"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked < 3 {
				status(w, http.StatusServiceUnavailable, "ServiceUnavailable", "error trying to reach service: "+cause)
				return
			}
			_, _ = io.WriteString(w, "room")
		})
		c, err := newCluster(&rest.Config{Host: a.URL})
		if err != nil {
			t.Fatal(err)
		}
		full := podProxy{Pod: interceptorPod("full"), port: 1, cluster: c}
		full.Namespace = "shop"
		if data, err := full.get(t.Context(), "/config_dump", nil); string(data) != "room" {
			t.Errorf("%q, %v", data, err)
		}
	}
}

// Any answer in place of Envoy's is read or refused, and what is read belongs to the
// HTTPScaledObject that was asked for.
func FuzzConfigDump(f *testing.F) {
	for name := range captured {
		f.Add(testdata(f, name))
	}
	f.Add([]byte(`{"configs":[{"route_config":{"virtual_hosts":[{"routes":[{"route":{"weighted_clusters":{"clusters":[{"name":"shop/demo/a","weight":1},{"name":"x"}]}}}]}]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var routes routesDump
		var clusters clustersDump
		var stats statsDump
		for _, into := range []any{&routes, &clusters, &stats} {
			_ = json.Unmarshal(data, into) // what cannot be read is not looked at
		}
		for _, s := range routes.over("shop/demo/") {
			if len(s.weights) == 0 || describeServed(s.weights) == "" {
				t.Errorf("a split of nothing: %+v", s)
			}
			_ = difference([]weightedbackends.Backend{{Service: "a", Weight: 1}, {Service: "b", Weight: 2147483646}}, []servedSplit{s})
		}
		for _, service := range clusters.services("shop/demo/") {
			if !strings.Contains(string(data), "shop") {
				t.Errorf("service %q of another HTTPScaledObject", service)
			}
		}
		_ = stats.says()
	})
}
