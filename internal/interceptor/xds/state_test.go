package xds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// theState returns the state of the only Envoy that is connected.
func (w *world) theState() EnvoyState {
	if all := w.server.connected(); len(all) == 1 {
		return all[0].state()
	}
	return EnvoyState{}
}

// unacknowledgedObjects returns the objects that the only Envoy has not acknowledged, as
// <name>=<state>.
func (w *world) unacknowledgedObjects() string {
	var all []string
	for _, o := range w.theState().UnacknowledgedObjects {
		all = append(all, o.Name+"="+string(o.State))
	}
	return sorted(strings.Join(all, " "))
}

func (e EnvoyState) typeNamed(name string) TypeState {
	for _, t := range e.Types {
		if t.Type == name {
			return t
		}
	}
	return TypeState{}
}

// age returns interceptor_xds_unacknowledged_seconds for a state.
func (w *world) age(is Acknowledgement) float64 {
	w.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(w.server); err != nil {
		w.t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() == "interceptor_xds_unacknowledged_seconds" && labelled(series, string(is)) {
				return series.GetGauge().GetValue()
			}
		}
	}
	w.t.Fatalf("there is no series of %s", is)
	return 0
}

func labelled(series *dto.Metric, value string) bool {
	for _, label := range series.GetLabel() {
		if label.GetValue() == value {
			return true
		}
	}
	return false
}

// gate makes a fake wait before it answers, or refuse.
type gate struct {
	mu      sync.Mutex
	closed  chan struct{}
	refusal string
}

func (g *gate) close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	closed := make(chan struct{})
	g.closed = closed
	return sync.OnceFunc(func() { close(closed) })
}

func (g *gate) refuse(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusal = why
}

// pass delays or refuses route configurations alone.
func (g *gate) pass(m proto.Message) string {
	if _, is := m.(*routev3.RouteConfiguration); !is {
		return ""
	}
	g.mu.Lock()
	closed, refusal := g.closed, g.refusal
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
	return refusal
}

// The list of Envoys shows what each Envoy was sent and has acknowledged, by type and by
// object, with its age, and shows no secret.
func TestStateOfAnEnvoy(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		for _, name := range []string{"app", "other", "canary"} {
			w.service(name, "10.0.0.1:80")
		}
		const secret = "a-secret"
		withHeader := func(o *httpv1alpha1.HTTPScaledObject) {
			o.Spec.Headers = []httpv1alpha1.Header{{Name: "x-key", Value: secret}}
		}
		w.server.SetCertificate([]byte(secret), []byte(secret))
		w.objectIn("demo", "app", withHeader)
		w.object("other")
		w.commit()
		g := &gate{}
		e := newFake(t, w.dialer(), sotw)
		e.refuse = g.pass
		began := time.Now()
		e.run()
		e.has(w)
		eventually(t, "everything acknowledged", func() bool { return len(w.theState().Types) == 3 && w.unacknowledgedObjects() == "" })
		state := w.theState()
		if state.Objects != 2 || state.Unacknowledged != 0 || state.Connected.After(time.Now()) || state.Protocol != map[bool]string{true: "sotw", false: "delta"}[sotw] {
			t.Errorf("the state is %+v", state)
		}
		for _, name := range []string{"cluster", "endpoints", "routes"} {
			is := state.typeNamed(name)
			if is.Sent == nil || is.Acknowledged == nil || is.Sent.Version != is.Acknowledged.Version || is.Sent.Version == version(0).String() ||
				is.Sent.At.Before(began) || is.Acknowledged.At.Before(is.Sent.At) || is.Refused != nil || is.Unanswered != 0 {
				t.Errorf("%s: sent %+v, acknowledged %+v, refused %+v, %d unanswered", name, is.Sent, is.Acknowledged, is.Refused, is.Unanswered)
			}
		}
		for _, is := range acknowledgements {
			if age := w.age(is); age != 0 {
				t.Errorf("the oldest object that is %s is %v s old; expected none", is, age)
			}
		}

		// The Envoy does not answer.
		had, open := state.typeNamed("routes").Acknowledged.Version, g.close()
		defer open()
		w.objectIn("demo", "app", withHeader, "app=1", "canary=1")
		w.commit()
		eventually(t, "app sent", func() bool {
			return w.unacknowledgedObjects() == "app=sent" && w.theState().typeNamed("routes").Unanswered == 1
		})
		w.object("other", "other=1", "canary=1")
		w.commit()
		eventually(t, "other waiting", func() bool { return w.unacknowledgedObjects() == "app=sent other=waiting" })
		is := w.theState().typeNamed("routes")
		if is.Acknowledged.Version != had || is.Sent.Version == had || is.UnansweredSince == nil || !is.UnansweredSince.Equal(is.Sent.At) {
			t.Errorf("without an answer, routes are %+v, %+v; before, %s was acknowledged", is, is.Sent, had)
		}
		for _, is := range []Acknowledgement{Sent, Waiting} {
			before := w.age(is)
			if before <= 0 {
				t.Errorf("the oldest object that is %s is %v s old", is, before)
			}
			eventually(t, "its age growing", func() bool { return w.age(is) > before })
		}
		open()
		eventually(t, "everything acknowledged", func() bool { return w.unacknowledgedObjects() == "" })

		// The Envoy refuses.
		g.refuse("no " + secret)
		w.objectIn("demo", "app", withHeader, "app=0", "canary=1")
		w.commit()
		eventually(t, "app refused", func() bool { return w.unacknowledgedObjects() == "app=refused" })
		if is := w.theState().typeNamed("routes"); is.Refused == nil {
			t.Errorf("routes are %+v", is)
		}
		if w.age(Refused) <= 0 || w.age(Sent) != 0 {
			t.Errorf("what is refused is %v s old, and what is sent %v s", w.age(Refused), w.age(Sent))
		}
		recorded := httptest.NewRecorder()
		w.server.ListEnvoys(recorded, nil)
		if text := recorded.Body.String(); strings.Contains(text, secret) || !strings.Contains(text, `"refused"`) {
			t.Errorf("it says\n%s", text)
		}
		g.refuse("")
		w.object("app")
		w.commit()
		eventually(t, "everything acknowledged", func() bool { return w.unacknowledgedObjects() == "" })
		e.check()
	})
}

// An object whose endpoints are not acknowledged is shown as not acknowledged.
func TestStateOfEndpointsWithoutAnAnswer(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	w.object("app")
	w.commit()
	s, err := w.dialer().DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*discoveryv3.DeltaDiscoveryRequest{
		{Node: theNode, TypeUrl: typeURLs[cds]},
		{TypeUrl: typeURLs[eds], ResourceNamesSubscribe: []string{"demo/app/app"}},
		{TypeUrl: typeURLs[rds], ResourceNamesSubscribe: []string{envoy.RouteConfigurationName}},
	} {
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(k kind) {
		t.Helper()
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetTypeUrl() != typeURLs[k] {
			t.Fatalf("got %s; expected %s", m.GetTypeUrl(), typeURLs[k])
		}
		if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce()}); err != nil {
			t.Fatal(err)
		}
	}
	answer(cds)
	answer(eds)
	answer(rds)
	eventually(t, "everything acknowledged", func() bool { return len(w.theState().Types) == 3 && w.unacknowledgedObjects() == "" })
	w.service("app", "10.0.0.2:80")
	w.commit()
	eventually(t, "app sent", func() bool { return w.unacknowledgedObjects() == "app=sent" })
	// As many responses as may wait for an answer do so.
	for i := range window {
		w.service("app", "10.0.0.3:80", []string{"10.0.0.4:80", "10.0.0.5:80"}[i%2])
		w.commit()
		eventually(t, "it sent or waiting", func() bool {
			is := w.theState().typeNamed("endpoints")
			return is.Unanswered == min(i+2, window)
		})
	}
	eventually(t, "app waiting", func() bool { return w.unacknowledgedObjects() == "app=waiting" })
	for range window + 1 {
		answer(eds)
	}
	eventually(t, "everything acknowledged", func() bool { return w.unacknowledgedObjects() == "" })
}

// blockedWriter is a client that does not read the answer.
type blockedWriter struct {
	http.ResponseWriter
	begun, over chan struct{}
	once        sync.Once
}

func (b *blockedWriter) Header() http.Header { return make(http.Header) }

func (b *blockedWriter) Write(p []byte) (int, error) {
	b.once.Do(func() { close(b.begun) })
	<-b.over
	return len(p), nil
}

// A client of /debug/envoys that does not read the answer delays no Envoy, and no other
// client.
func TestSlowReaderOfStates(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	for _, name := range []string{"app", "canary"} {
		w.service(name, "10.0.0.1:80")
	}
	w.object("app")
	w.commit()
	e := newFake(t, w.dialer(), false)
	e.run()
	e.has(w)
	slow := &blockedWriter{begun: make(chan struct{}), over: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.server.ListEnvoys(slow, nil)
	}()
	<-slow.begun
	w.object("app", "app=1", "canary=1")
	w.commit()
	e.has(w)
	recorded := httptest.NewRecorder()
	w.server.ListEnvoys(recorded, nil)
	var list EnvoyList
	if err := json.Unmarshal(recorded.Body.Bytes(), &list); err != nil || len(list) != 1 {
		t.Errorf("%d Envoys (%v)", len(list), err)
	}
	close(slow.over)
	<-ended
}

// The list shows what an Envoy was sent that does not read from its stream.
func TestStateOfAnEnvoyThatDoesNotRead(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	const n = 2 * maxListed
	name := func(i int) string { return fmt.Sprintf("app%04d", i) }
	for i := range n {
		w.objectIn("demo", name(i), nil, "app=1")
	}
	w.service("app", "10.0.0.1:80")
	w.commit()
	s, err := w.dialer().DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: theNode, TypeUrl: typeURLs[cds]}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "clusters sent", func() bool { return w.theState().typeNamed("cluster").Unanswered > 0 })
	state := w.theState()
	if state.Objects != n || state.Unacknowledged != n || len(state.UnacknowledgedObjects) != maxListed {
		t.Errorf("of %d objects, %d are not acknowledged, and %d listed; expected %d of %d, and %d", state.Objects, state.Unacknowledged, len(state.UnacknowledgedObjects), n, n, maxListed)
	}
	if w.age(Waiting) <= 0 {
		t.Error("what waits has no age")
	}
	var text strings.Builder
	if err := (&EnvoyList{state}).Print(&text); err != nil || !strings.Contains(text.String(), ": 1000 more\n") || !strings.Contains(text.String(), "demo/"+state.UnacknowledgedObjects[0].Name+": waiting since ") {
		t.Errorf("it prints (%v)\n%.2000s", err, text.String())
	}
}
