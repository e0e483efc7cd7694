package proxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// patience is how long anything in these tests may take.
const patience = time.Minute

// world is a proxy on a loopback listener, with the objects that it serves.
type world struct {
	t       testing.TB
	builder *routes.Builder
	proxy   *Proxy
	server  *Server
	address string
	client  *http.Client
	// unhealthy is the error that /healthz reports.
	unhealthy error
}

func newWorld(t testing.TB, change ...func(*Settings)) *world {
	t.Helper()
	settings := DefaultSettings()
	settings.ConnectTimeout = patience // many connections at once take a while, with the race detector
	for _, c := range change {
		c(&settings)
	}
	return worldOf(t, New(settings, slog.New(slog.DiscardHandler)))
}

func worldOf(t testing.TB, p *Proxy) *world {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	w := &world{
		t: t, builder: routes.NewBuilder(), proxy: p, server: NewServer(p), address: l.Addr().String(),
		client: &http.Client{Transport: transport, Timeout: patience},
	}
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(l) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.server.Shutdown(ctx) // tests of Shutdown check its result
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return w
}

// service makes a Service with these endpoints.
func (w *world) service(name, appProtocol string, addresses ...string) {
	w.t.Helper()
	port, portName := int32(80), "http"
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: portName, Port: port}}},
	}
	if appProtocol != "" {
		service.Spec.Ports[0].AppProtocol = &appProtocol
	}
	w.builder.SetService(service)
	for i := range 16 {
		w.builder.DeleteEndpointSlice(types.NamespacedName{Namespace: "demo", Name: fmt.Sprint(name, "-", i)})
	}
	for i, address := range addresses {
		w.builder.SetEndpointSlice(endpointSlice(name, i, netip.MustParseAddrPort(address)))
	}
}

// endpointSlice is one of a Service that service makes, with one endpoint.
func endpointSlice(service string, number int, at netip.AddrPort) *discoveryv1.EndpointSlice {
	portName, port := "http", int32(at.Port())
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: fmt.Sprint(service, "-", number),
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		Ports:     []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
	}
}

// object makes HTTPScaledObject demo/app for host app.test, with a split such as
// "stable=80 canary=20", or without.
func (w *world) object(split string, change ...func(*httpv1alpha1.HTTPScaledObjectSpec)) {
	port := int32(80)
	object := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "1"},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts:          []string{"app.test"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "stable", Port: &port},
		},
	}
	for _, c := range change {
		c(&object.Spec)
	}
	if split != "" {
		var backends []weightedbackends.Backend
		for entry := range strings.FieldsSeq(split) {
			service, weight, _ := strings.Cut(entry, "=")
			var n int32
			if _, err := fmt.Sscan(weight, &n); err != nil {
				w.t.Fatal(err)
			}
			backends = append(backends, weightedbackends.Backend{Service: service, Weight: n})
		}
		object.Annotations = map[string]string{weightedbackends.Annotation: weightedbackends.Format(backends)}
	}
	w.builder.SetHTTPScaledObject(object)
}

// commit has the proxy serve the objects as they are.
func (w *world) commit() {
	table, _ := w.builder.Commit()
	w.proxy.SetTable(table)
}

// app starts an application and returns its address.
func (w *world) app(handler http.HandlerFunc) string {
	return w.appServer(handler, false).Listener.Addr().String()
}

func (w *world) appServer(handler http.HandlerFunc, h2c bool) *httptest.Server {
	s := httptest.NewUnstartedServer(handler)
	if h2c {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
	}
	s.Start()
	w.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// named is an application that answers with its name.
func named(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }
}

// request makes a request for app.test through the proxy.
func (w *world) request(method, target string, body io.Reader) *http.Request {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.address+target, body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Host = "app.test"
	return r
}

// do sends a request and reads the answer.
func (w *world) do(r *http.Request) (*http.Response, string) {
	w.t.Helper()
	res, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, string(body)
}

func (w *world) get(target string) (*http.Response, string) {
	w.t.Helper()
	return w.do(w.request(http.MethodGet, target, nil))
}

// eventually waits until so returns true.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("not so in %v: %s", patience, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// unused returns an address that refuses connections.
func unused(t testing.TB) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", freeport.Get(t))
}
