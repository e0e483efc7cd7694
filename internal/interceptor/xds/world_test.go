package xds

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// patience is how long anything in these tests may take.
const patience = time.Minute

// world is a table, and a server of it.
type world struct {
	t       testing.TB
	builder *routes.Builder
	server  *Server
	told    *told
	ledger  *loads.Ledger
	// committed is the table of the last commit, whose objects the ledger knows.
	committed atomic.Pointer[routes.Table]
	change    []func(*Server) // applied to every server
}

// told collects the problems that a server reports.
type told struct {
	mu   sync.Mutex
	open []routes.Problem
}

func (t *told) tell(opened, resolved []routes.Problem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range resolved {
		for i := range t.open {
			if t.open[i] == p {
				t.open = append(t.open[:i:i], t.open[i+1:]...)
				break
			}
		}
	}
	t.open = append(t.open, opened...)
}

func (t *told) problems() []routes.Problem {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.open)
}

// objects returns the names of the objects that have a problem now.
func (t *told) objects() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, p := range t.open {
		all = append(all, p.Object.Name)
	}
	return strings.Join(all, " ")
}

// newTranslator makes a Translator with the Connections of the embedded proxy if the
// options have none.
func newTranslator(t testing.TB, options envoy.Options) *envoy.Translator {
	t.Helper()
	if options.Connections == (envoy.Connections{}) {
		options.Connections = connections()
	}
	return envoy.NewTranslator(options)
}

// connections are those of an embedded proxy with default settings.
func connections() envoy.Connections {
	s := proxy.DefaultSettings()
	return envoy.Connections{
		ConnectTimeout: s.ConnectTimeout, IdleConnTimeout: s.IdleConnTimeout, KeepAlive: s.KeepAlive,
		MaxHeaderBytes: s.MaxHeaderBytes, ReadHeader: s.ReadHeader, Idle: s.Idle, MaxStreams: s.MaxStreams,
	}
}

func newWorld(t testing.TB, options envoy.Options, change ...func(*Server)) *world {
	t.Helper()
	w := &world{t: t, builder: routes.NewBuilder(), told: &told{}, change: change}
	w.ledger = loads.New(func(object types.NamespacedName) bool {
		table := w.committed.Load()
		return table != nil && table.Route(object) != nil
	})
	w.server = w.newServer(newTranslator(t, options))
	return w
}

func (w *world) newServer(translator *envoy.Translator) *Server {
	settings := DefaultSettings()
	settings.Linger = 50 * time.Millisecond
	settings.MaxConcurrentStreams = 1000 // all Envoys of a test have one address
	s := New(settings, translator, w.ledger, slog.New(slog.DiscardHandler))
	s.OnProblems(w.told.tell)
	for _, c := range w.change {
		c(s)
	}
	return s
}

// serve serves until the test ends, or the function returned is called.
func serve(t testing.TB, s *Server, l net.Listener) (stop func()) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, nil, again(l)) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			s.Shutdown(ctx)
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// again returns a function that listens where a listener did.
func again(l net.Listener) func() (net.Listener, error) {
	return func() (net.Listener, error) { return net.Listen("tcp", l.Addr().String()) }
}

// service makes a Service of namespace demo with these endpoints.
func (w *world) service(name string, addresses ...string) {
	w.serviceIn("demo", name, "", addresses...)
}

func (w *world) serviceIn(namespace, name, appProtocol string, addresses ...string) {
	w.t.Helper()
	portName, port := "http", int32(80)
	sp := corev1.ServicePort{Name: portName, Port: port}
	if appProtocol != "" {
		sp.AppProtocol = &appProtocol
	}
	w.builder.SetService(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{sp}},
	})
	for i := range 8 { // as many as any test has
		slice := types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(name, "-", i)}
		if i >= len(addresses) {
			w.builder.DeleteEndpointSlice(slice)
			continue
		}
		at := netip.MustParseAddrPort(addresses[i])
		target := int32(at.Port())
		w.builder.SetEndpointSlice(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: slice.Name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			Ports:      []discoveryv1.EndpointPort{{Name: &portName, Port: &target}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
		})
	}
}

// object makes an HTTPScaledObject of namespace demo for the host
// <name>.example.com and the Service of its name, or a split of others.
func (w *world) object(name string, split ...string) { w.objectIn("demo", name, nil, split...) }

func (w *world) objectIn(namespace, name string, change func(*httpv1alpha1.HTTPScaledObject), split ...string) {
	port := int32(80)
	o := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts:          []string{name + ".example.com"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: name, Port: &port},
		},
	}
	if len(split) > 0 {
		text := ""
		for _, s := range split {
			service, weight, _ := strings.Cut(s, "=")
			text += fmt.Sprintf("- service: %s\n  weight: %s\n", service, weight)
		}
		o.Annotations = map[string]string{weightedbackends.Annotation: text}
	}
	if change != nil {
		change(o)
	}
	w.builder.SetHTTPScaledObject(o)
}

func objectNamed(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "demo", Name: name}
}

// commit gives the table to the server, and fails the test if there is a new problem.
func (w *world) commit() *routes.Table {
	w.t.Helper()
	table, changes := w.builder.Commit()
	for _, p := range changes.Opened {
		w.t.Fatalf("problem of the test's own: %v", p)
	}
	w.committed.Store(table)
	w.server.Update(table, changes)
	return table
}

// backend is an application that answers with its name.
func backend(t testing.TB, name string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %v in vain: %s", patience, what)
		}
		time.Sleep(time.Millisecond)
	}
}
