package xds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/acknowledged"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// answerOf returns what a server answers for a namespace while it sees the API server.
func answerOf(t testing.TB, s *Server, namespace string) acknowledged.Answer {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetPathValue("namespace", namespace)
	recorder := httptest.NewRecorder()
	s.ListAcknowledged(func() string { return "" })(recorder, r)
	var a acknowledged.Answer
	if err := json.Unmarshal(recorder.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v in %s", err, recorder.Body)
	}
	return a
}

// lacks returns why a pod does not have an object of namespace demo, by the rule that package
// acknowledged states; empty if it has it.
func (w *world) lacks(pod, name string) string {
	w.t.Helper()
	a := answerOf(w.t, w.server, "demo")
	if a.APIServer != "" {
		return a.APIServer
	}
	i := slices.IndexFunc(a.Proxies, func(p acknowledged.Proxy) bool { return p.Pod == pod })
	j := slices.IndexFunc(a.Objects, func(o acknowledged.Object) bool { return o.Name == name })
	switch {
	case j < 0:
		return "not there"
	case a.Objects[j].Problem != "":
		return a.Objects[j].Problem
	case i < 0:
		return "no such pod"
	case a.Proxies[i].Problem != "":
		return a.Proxies[i].Problem
	case slices.Contains(a.Proxies[i].Behind, name):
		return "behind"
	}
	return ""
}

// hasIt waits until a pod has an object of namespace demo.
func (w *world) hasIt(pod, name string) {
	w.t.Helper()
	eventually(w.t, pod+" having "+name, func() bool { return w.lacks(pod, name) == "" })
}

func (w *world) lacksIt(pod, name, want string) {
	w.t.Helper()
	if why := w.lacks(pod, name); !strings.HasPrefix(why, want) || why == "" {
		w.t.Fatalf("%s lacks %s: %q; expected %q", pod, name, why, want)
	}
}

// answered returns an object of namespace demo as it is answered.
func (w *world) answered(name string) acknowledged.Object {
	w.t.Helper()
	for _, o := range answerOf(w.t, w.server, "demo").Objects {
		if o.Name == name {
			return o
		}
	}
	return acknowledged.Object{}
}

const (
	thePod    = "demo/kedify-proxy-0"
	nothing   = "it has not acknowledged any routes yet"
	behindIt  = "behind"
	twoWeight = "- service: app\n  weight: 1\n- service: canary\n  weight: 1\n"
)

// podNode is the node of an Envoy in a pod, for these namespaces, or for all if none is given.
func podNode(pod string, namespaces ...any) *corev3.Node {
	metadata, err := structpb.NewStruct(map[string]any{envoy.PodKey: pod})
	if err != nil {
		panic(err)
	}
	if len(namespaces) > 0 {
		list, err := structpb.NewList(namespaces)
		if err != nil {
			panic(err)
		}
		metadata.Fields[envoy.NamespacesKey] = structpb.NewListValue(list)
	}
	return &corev3.Node{Id: envoy.NodeID, Metadata: metadata}
}

func newPod(w *world, sotw bool, g *gate) *fake {
	e := newFake(w.t, w.dialer(), sotw)
	e.node = podNode(thePod)
	if g != nil {
		e.refuse = g.pass
	}
	return e
}

func newApp(t *testing.T, change ...func(*Server)) *world {
	w := newWorld(t, envoy.Options{}, change...)
	for _, name := range []string{"app", "other", "canary"} {
		w.service(name, "10.0.0.1:80")
	}
	w.object("app")
	w.object("other")
	w.commit()
	return w
}

// generation is a change of an object.
func generation(n int64) func(*httpv1alpha1.HTTPScaledObject) {
	return func(o *httpv1alpha1.HTTPScaledObject) { o.Generation = n }
}

// A pod has an object from the moment when it has acknowledged the object as it is now: a
// change of the split, of the spec or of the endpoints takes that away at once, and only an
// acknowledgement gives it back.
func TestAcknowledged(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newApp(t)
		g := &gate{}
		open := g.close()
		e := newPod(w, sotw, g)
		w.lacksIt(thePod, "app", "no such pod")
		e.run()
		sent := func(want string) {
			t.Helper()
			eventually(t, "the state "+want, func() bool { return w.unacknowledgedObjects() == want })
		}
		sent("app=sent other=sent")
		w.lacksIt(thePod, "app", nothing)
		open()
		w.hasIt(thePod, "app")
		w.hasIt(thePod, "other")

		for _, change := range []func(){
			func() { w.object("app", "app=1", "canary=1") },
			func() { w.objectIn("demo", "app", onHost("new.example.com", "/"), "app=1", "canary=1") },
			func() { w.object("app", "canary=1") },
			func() { w.object("app") },
		} {
			open = g.close()
			change()
			w.commit()
			w.lacksIt(thePod, "app", behindIt)
			if why := w.lacks(thePod, "other"); why != "" {
				t.Errorf("app changes, and the pod lacks other: %s", why)
			}
			sent("app=sent")
			w.lacksIt(thePod, "app", behindIt)
			open()
			w.hasIt(thePod, "app")
		}
		w.object("app", "app=1", "canary=1")
		w.commit()
		if o := w.answered("app"); o.Split != twoWeight || o.UID != "uid-app" || o.Problem != "" {
			t.Errorf("app is %+v", o)
		}
		w.hasIt(thePod, "app")
		w.service("canary", "10.0.0.2:80")
		w.commit()
		w.hasIt(thePod, "app")
		eventually(t, "the new endpoints", func() bool {
			return locked(e, func() bool { return strings.Contains(e.assignments["demo/app/canary"].String(), "10.0.0.2") })
		})
		e.check()
	})
}

// Whatever comes when, no pod has an object with a later split than its Envoy serves.
func TestNeverAcknowledgedTooEarly(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newApp(t)
		w.object("app", "app=1", "canary=1")
		w.commit()
		e := newPod(w, sotw, nil)
		e.run()
		w.hasIt(thePod, "app")
		weight := func(text, service string) (n int) {
			_, after, _ := strings.Cut(text, service)
			_, _ = fmt.Sscan(strings.TrimLeft(after, "=\n weight:"), &n)
			return n
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			for n := range 300 {
				w.object("app", "app=1", fmt.Sprint("canary=", n+2))
				table, changes := w.builder.Commit()
				w.server.Update(table, changes)
			}
		}()
		for checked, done := 0, false; !done || checked == 0; {
			select {
			case <-over:
				done = true
			default:
			}
			a := answerOf(t, w.server, "demo")
			if p := a.Proxies[0]; p.Problem != "" || slices.Contains(p.Behind, "app") {
				continue
			}
			checked++
			said, has := weight(a.Objects[0].Split, "canary"), weight(e.split("app.example.com"), "canary")
			if said == 0 || has < said {
				t.Fatalf("acknowledged with weight %d; the Envoy has %d", said, has)
			}
		}
	})
}

// A change of the generation or the UID alone is not sent to any Envoy, and is in the answer.
func TestAcknowledgedGenerationAndUID(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newApp(t)
		e := newPod(w, sotw, nil)
		e.run()
		w.hasIt(thePod, "app")
		pushes := func() (n int) {
			for _, name := range kindNames {
				n += count(w.server.metrics.pushes.WithLabelValues(name))
			}
			return n
		}
		before, position := pushes(), w.server.objectsOf("demo").position
		w.objectIn("demo", "app", generation(7))
		w.commit()
		if o := w.answered("app"); o.Generation != 7 {
			t.Errorf("app is %+v", o)
		}
		if why := w.lacks(thePod, "app"); why != "" {
			t.Error(why)
		}
		if at := w.server.objectsOf("demo").position; at != position {
			t.Errorf("streams have to look at %d changes", at-position)
		}
		w.objectIn("demo", "app", func(o *httpv1alpha1.HTTPScaledObject) { o.UID, o.Generation = "anew", 1 })
		w.commit()
		if o := w.answered("app"); o.UID != "anew" || o.Generation != 1 {
			t.Errorf("app is %+v", o)
		}
		w.hasIt(thePod, "app")
		if n := pushes(); n != before {
			t.Errorf("%d pushes", n-before)
		}
		w.builder.DeleteHTTPScaledObject(objectNamed("app"))
		w.commit()
		if o := w.answered("app"); o.Name != "" {
			t.Errorf("a deleted object is %+v", o)
		}
	})
}

// A pod does not have an object that its Envoy refuses, whose previous form it keeps.
func TestAcknowledgedIsNotRefused(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newApp(t)
		g := &gate{}
		e := newPod(w, sotw, g)
		e.run()
		w.hasIt(thePod, "app")
		g.refuse("no")
		w.objectIn("demo", "app", onHost("new.example.com", "/"))
		w.commit()
		eventually(t, "app refused", func() bool { return w.unacknowledgedObjects() == "app=refused" })
		w.lacksIt(thePod, "app", behindIt)
		w.hasIt(thePod, "other")
		g.refuse("")
		w.objectIn("demo", "app", onHost("new.example.com", "/"), "app=1", "canary=1")
		w.commit()
		w.hasIt(thePod, "app")
		if got := e.split("new.example.com"); got != "demo/app/app=1 demo/app/canary=1" {
			t.Errorf("it serves %s", got)
		}
		e.check()
	})
}

// An Envoy that keeps an old form of an object gets the current split with it. The object is
// not acknowledged for all that.
func TestAcknowledgedIsNotThePreviousFormWithTheCurrentSplit(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newApp(t)
		e := newPod(w, sotw, nil)
		e.refuse = func(m proto.Message) string {
			if strings.Contains(fmt.Sprint(m), "new.example.com") {
				return "no"
			}
			return ""
		}
		e.run()
		w.hasIt(thePod, "app")
		w.objectIn("demo", "app", onHost("new.example.com", "/"))
		w.commit()
		eventually(t, "app refused", func() bool { return w.unacknowledgedObjects() == "app=refused" })
		w.objectIn("demo", "app", onHost("new.example.com", "/"), "app=1", "canary=1")
		w.commit()
		eventually(t, "the current split", func() bool { return e.split("app.example.com") == "demo/app/app=1 demo/app/canary=1" })
		eventually(t, "app refused", func() bool { return w.unacknowledgedObjects() == "app=refused" })
		w.lacksIt(thePod, "app", behindIt)
		e.check()
	})
}

// An object that is served otherwise than it asks has a Problem.
func TestAcknowledgedObjectsWithProblems(t *testing.T) {
	w := newApp(t)
	e := newPod(w, false, nil)
	e.run()
	w.hasIt(thePod, "app")
	update := func() {
		table, changes := w.builder.Commit()
		w.server.Update(table, changes)
	}
	w.objectIn("demo", "app", absurd)
	update()
	w.lacksIt(thePod, "app", "InvalidForEnvoy: ")
	w.objectIn("demo", "app", onHost("no host", "/"))
	update()
	w.lacksIt(thePod, "app", "InvalidHost: ")
	if o := w.answered("app"); o.UID != "uid-app" {
		t.Errorf("app is %+v", o)
	}
	w.object("app", "app=1", "missing=1")
	update()
	w.lacksIt(thePod, "app", "UnknownService: ")
	if o := w.answered("app"); !strings.Contains(o.Split, "missing") {
		t.Errorf("app is %+v", o)
	}
	w.objectIn("demo", "app", func(o *httpv1alpha1.HTTPScaledObject) {
		o.Annotations = map[string]string{weightedbackends.Annotation: "nonsense"}
	})
	update()
	w.lacksIt(thePod, "app", "InvalidSplit: ")
	// A Problem that changes nothing for requests is none here.
	w.objectIn("demo", "app", func(o *httpv1alpha1.HTTPScaledObject) {
		o.Spec.Hosts = append(o.Spec.Hosts, o.Spec.Hosts...)
	})
	update()
	w.hasIt(thePod, "app")
	// An object for which nothing is served is in the list too.
	w.objectIn("demo", "none", onHost("no host", "/"))
	update()
	w.lacksIt(thePod, "none", "InvalidHost: ")
	if o := w.answered("none"); o.UID != "uid-none" {
		t.Errorf("none is %+v", o)
	}
	w.builder.DeleteHTTPScaledObject(objectNamed("none"))
	update()
	if o := w.answered("none"); o.Name != "" || len(w.server.objects["demo"]) != 2 {
		t.Errorf("a deleted object is %+v, of %v", o, w.server.objects)
	}
	if a := answerOf(t, newWorldLike(w), "demo"); len(a.Objects) != 2 {
		t.Errorf("another interceptor has %+v", a.Objects)
	}
}

// Another object's form that the Envoy keeps may take the requests of an object that is
// acknowledged itself.
func TestAcknowledgedWhileAnotherObjectHoldsTheHost(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newApp(t)
		e := newPod(w, sotw, nil)
		e.deaf["demo/app/canary"] = true
		e.run()
		w.hasIt(thePod, "app")
		// App moves to another host and waits for its new cluster there; a new object gets
		// the host.
		w.objectIn("demo", "app", onHost("new.example.com", "/"), "canary=1")
		w.objectIn("demo", "other", onHost("app.example.com", "/"))
		w.objectIn("demo", "wide", onHost("*.example.com", "/"), "other=1")
		w.commit()
		eventually(t, "app alone waiting", func() bool { return w.unacknowledgedObjects() == "app=waiting" })
		if got := e.split("app.example.com"); !strings.Contains(got, "demo/app/app") {
			t.Errorf("the host is served by %s", got)
		}
		w.lacksIt(thePod, "other", behindIt)
		w.lacksIt(thePod, "wide", behindIt)
		w.objectIn("demo", "app", onHost("new.example.com", "/"))
		w.commit()
		for _, name := range []string{"app", "other", "wide"} {
			w.hasIt(thePod, name)
		}
		e.check()
	})
}

// A pod has what its Envoys on all of its streams have. A pod is listed where its Envoy gets
// the objects of the namespace, and may speak for it.
func TestAcknowledgedByPod(t *testing.T) {
	w := newApp(t)
	w.serviceIn("shop", "app", "", "10.0.0.1:80")
	w.objectIn("shop", "app", onHost("shop.example.com", "/"))
	w.commit()
	e := newPod(w, false, nil)
	e.run()
	w.hasIt(thePod, "app")
	pods := func(namespace string) string {
		var all []string
		for _, p := range answerOf(t, w.server, namespace).Proxies {
			all = append(all, p.Pod)
		}
		return strings.Join(all, " ")
	}
	// The second Envoy of the pod does not answer.
	g := &gate{}
	open := g.close()
	again := newPod(w, true, g)
	again.run()
	eventually(t, "both connected", func() bool { return len(w.server.connected()) == 2 })
	w.lacksIt(thePod, "app", nothing)
	now, both := w.server.objectsOf("demo"), w.server.connected()
	for range both {
		slices.Reverse(both)
		if p := w.server.proxy(both, &now); p.Pod != thePod || p.Problem != nothing {
			t.Errorf("the pod is %+v", p)
		}
	}
	if got := pods("demo"); got != thePod {
		t.Errorf("the pods are %s", got)
	}
	open()
	w.hasIt(thePod, "app")
	for pod, namespaces := range map[string][]any{
		"": nil, "shop/kedify-proxy-1": {"shop"}, "shop/kedify-proxy-2": {"demo"}, "shop/kedify-proxy-3": {"demo", "shop"},
	} {
		f := newFake(t, w.dialer(), false)
		f.node = podNode(pod, namespaces...)
		f.run()
	}
	eventually(t, "all connected", func() bool { return len(w.server.connected()) == 6 })
	for namespace, want := range map[string]string{
		"demo":  thePod + " shop/kedify-proxy-3",
		"shop":  thePod + " shop/kedify-proxy-1 shop/kedify-proxy-3",
		"empty": thePod,
	} {
		if got := pods(namespace); got != want {
			t.Errorf("of %s: the pods are %s; expected %s", namespace, got, want)
		}
	}
	if a := answerOf(t, w.server, "empty"); a.Objects == nil || len(a.Objects) != 0 {
		t.Errorf("an empty namespace has %+v", a.Objects)
	}
}

// An Envoy that comes back has what its versions say for certain, and nothing else.
func TestAcknowledgedWhenAnEnvoyComesBack(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newApp(t)
		g := &gate{}
		e := newPod(w, sotw, g)
		e.run()
		w.hasIt(thePod, "app")
		w.server = newWorldLike(w)
		w.lacksIt(thePod, "app", "no such pod")
		e = e.again(w.dialer())
		e.run()
		w.hasIt(thePod, "app")
		w.hasIt(thePod, "other")
		if n := locked(e, func() int { return e.received[rds] }); n != 0 {
			t.Errorf("it was sent %d route configurations", n)
		}
		// The split changes while the Envoy is away.
		e.end()
		open := g.close()
		w.object("app", "app=1", "canary=1")
		w.builder.Commit()
		w.server = newWorldLike(w)
		e = e.again(w.dialer())
		e.run()
		eventually(t, "the routes sent", func() bool { return w.theState().typeNamed("routes").Unanswered == 1 })
		w.lacksIt(thePod, "app", nothing)
		open()
		w.hasIt(thePod, "app")
		if got := e.split("app.example.com"); got != "demo/app/app=1 demo/app/canary=1" {
			t.Errorf("it serves %s", got)
		}
		e.check()
	})
}

// An interceptor that has not read the cluster yet says so, and so does one that does not
// see the API server.
func TestAcknowledgedWithoutATable(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	if a := answerOf(t, w.server, "demo"); a.APIServer == "" || a.Objects == nil || a.Proxies == nil {
		t.Errorf("it answers %+v", a)
	}
	recorder := httptest.NewRecorder()
	w.server.ListAcknowledged(func() string { return "lost" })(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	if text := recorder.Body.String(); text != `{"apiServer":"lost","objects":[],"proxies":[]}`+"\n" {
		t.Errorf("it answers %s", text)
	}
}

// speaks is a delta stream of an Envoy in thePod whose every message is the test's.
type speaks struct {
	t *testing.T
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

// newSpeaker asks for the types, but for cds if without is cds.
func newSpeaker(w *world, t *testing.T, without ...kind) speaks {
	s, err := w.dialer().DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	is := speaks{t, s}
	for _, r := range []*discoveryv3.DeltaDiscoveryRequest{
		{TypeUrl: typeURLs[cds]},
		{TypeUrl: typeURLs[eds], ResourceNamesSubscribe: []string{"demo/app/app", "demo/other/other"}},
		{TypeUrl: typeURLs[rds], ResourceNamesSubscribe: []string{envoy.RouteConfigurationName}},
	} {
		if k, _ := kindOf(r.TypeUrl); !slices.Contains(without, k) {
			r.Node = podNode(thePod)
			is.says(r)
		}
	}
	return is
}

func (s speaks) says(r *discoveryv3.DeltaDiscoveryRequest) {
	s.t.Helper()
	if err := s.Send(r); err != nil {
		s.t.Fatal(err)
	}
}

// answers receives a response, and refuses it unless refusal is empty.
func (s speaks) answers(k kind, refusal string) {
	s.t.Helper()
	m, err := s.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	if m.GetTypeUrl() != typeURLs[k] {
		s.t.Fatalf("got %s; expected %s", m.GetTypeUrl(), typeURLs[k])
	}
	s.says(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce(), ErrorDetail: refused(refusal)})
}

// A pod lacks the objects of all clusters and endpoints in a response that its Envoy refuses
// without a word on which resource is at fault, until it accepts these.
func TestAcknowledgedIsNotRefusedForUnknownReasons(t *testing.T) {
	w := newApp(t)
	e := newSpeaker(w, t)
	for _, k := range []kind{cds, eds, rds} {
		e.answers(k, "")
	}
	w.hasIt(thePod, "app")
	w.service("app", "10.0.0.2:80")
	w.commit()
	w.lacksIt(thePod, "app", behindIt)
	e.answers(eds, "something is wrong")
	eventually(t, "the refusal", func() bool { return w.theState().typeNamed("endpoints").Unanswered == 0 })
	w.lacksIt(thePod, "app", behindIt)
	w.hasIt(thePod, "other")
	w.service("app", "10.0.0.3:80")
	w.commit()
	e.answers(eds, "")
	w.hasIt(thePod, "app")
}

// An Envoy that gives up its routes, and asks for them again, has none meanwhile.
func TestAcknowledgedIsNotGivenUp(t *testing.T) {
	w := newApp(t)
	e := newSpeaker(w, t)
	for _, k := range []kind{cds, eds, rds} {
		e.answers(k, "")
	}
	w.hasIt(thePod, "app")
	names := []string{envoy.RouteConfigurationName}
	e.says(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[rds], ResourceNamesUnsubscribe: names})
	eventually(t, "routes given up", func() bool { return w.lacks(thePod, "app") == nothing })
	e.says(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[rds], ResourceNamesSubscribe: names})
	eventually(t, "routes sent", func() bool { return w.theState().typeNamed("routes").Unanswered == 1 })
	w.lacksIt(thePod, "app", nothing)
	e.answers(rds, "")
	w.hasIt(thePod, "app")
}

// A pod lacks an object whose endpoints or clusters its Envoy has not asked for, or gives up.
func TestAcknowledgedWithItsClusters(t *testing.T) {
	w := newApp(t)
	e := newSpeaker(w, t, cds)
	e.answers(eds, "")
	e.answers(rds, "")
	eventually(t, "routes acknowledged", func() bool { return w.theState().typeNamed("routes").Acknowledged != nil })
	w.lacksIt(thePod, "app", behindIt)
	e.says(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[cds]})
	e.answers(cds, "")
	e.answers(eds, "") // of clusters that replace others
	w.hasIt(thePod, "app")
	names := []string{"demo/app/app"}
	e.says(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[eds], ResourceNamesUnsubscribe: names})
	eventually(t, "endpoints given up", func() bool { return w.lacks(thePod, "app") == behindIt })
	w.hasIt(thePod, "other")
	e.says(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[eds], ResourceNamesSubscribe: names})
	e.answers(eds, "")
	w.hasIt(thePod, "app")
}

// A pod lacks the object of a cluster that its Envoy refuses.
func TestAcknowledgedIsNotARefusedCluster(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newApp(t)
		e := newPod(w, sotw, nil)
		e.refuse = func(m proto.Message) string {
			if c, is := m.(*clusterv3.Cluster); is && c.GetName() == "demo/app/app" && isHTTP2(c) {
				return "no HTTP/2"
			}
			return ""
		}
		e.run()
		w.hasIt(thePod, "app")
		w.serviceIn("demo", "app", "kubernetes.io/h2c", "10.0.0.1:80")
		w.commit()
		w.lacksIt(thePod, "app", behindIt)
		eventually(t, "app refused", func() bool { return w.unacknowledgedObjects() == "app=refused" })
		w.lacksIt(thePod, "app", behindIt)
		w.service("app", "10.0.0.1:80")
		w.commit()
		w.hasIt(thePod, "app")
	})
}

// A stream that is behind the table lacks what has changed since: it may be far behind.
func TestAcknowledgedFollowsTheJournal(t *testing.T) {
	w := newApp(t)
	e := newPod(w, false, nil)
	e.run()
	w.hasIt(thePod, "app")
	s, st := w.server, w.server.connected()[0]
	st.mu.Lock()
	position := st.position
	st.mu.Unlock()
	since := func() (string, string) {
		all := make(map[string]bool)
		why := s.changed(position, "demo", all)
		var names []string
		for name := range all {
			names = append(names, name)
		}
		return sorted(strings.Join(names, " ")), why
	}
	if names, why := since(); names != "" || why != "" {
		t.Errorf("nothing has changed, and %q lacks: %s", names, why)
	}
	w.service("app", "10.0.0.2:80")
	w.objectIn("shop", "app", nil)
	table, changes := w.builder.Commit()
	s.Update(table, changes)
	w.object("other", "canary=1")
	w.commit()
	if names, why := since(); names != "app other" || why != "" {
		t.Errorf("%q lack: %s", names, why)
	}
	s.mu.Lock()
	s.journal.add(change{kind: allAssignments})
	s.mu.Unlock()
	if _, why := since(); why == "" {
		t.Error("all endpoints have changed, and it says nothing")
	}
	s.mu.Lock()
	s.journal.add(make([]change, 3*journalLength)...)
	s.mu.Unlock()
	if _, why := since(); why == "" {
		t.Error("it is far behind, and says nothing")
	}
	now := s.objectsOf("demo")
	now.position = position // the answer began then
	if p := s.proxy([]*stream{st}, &now); p.Problem == "" {
		t.Errorf("the pod is %+v", p)
	}
}

// A client that does not read the answer delays no Envoy, and no other client.
func TestSlowReaderOfAcknowledged(t *testing.T) {
	w := newApp(t)
	e := newPod(w, false, nil)
	e.run()
	w.hasIt(thePod, "app")
	slow := &blockedWriter{begun: make(chan struct{}), over: make(chan struct{})}
	ended := make(chan struct{})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetPathValue("namespace", "demo")
	go func() {
		defer close(ended)
		w.server.ListAcknowledged(func() string { return "" })(slow, r)
	}()
	<-slow.begun
	w.object("app", "app=1", "canary=1")
	w.commit()
	w.hasIt(thePod, "app")
	e.has(w)
	close(slow.over)
	<-ended
}
