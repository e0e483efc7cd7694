package envoy

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// world has the objects that a table is made of.
type world struct {
	t       testing.TB
	builder *routes.Builder
}

func newWorld(t testing.TB) *world { return &world{t: t, builder: routes.NewBuilder()} }

func (w *world) table() *routes.Table {
	w.t.Helper()
	table, _ := w.builder.Commit()
	for _, p := range table.Problems() {
		w.t.Errorf("%s: %s", p.Object, p.Message)
	}
	return table
}

// service makes a Service with these endpoints.
func (w *world) service(name string, protocol routes.Protocol, endpoints ...netip.AddrPort) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
	if protocol == routes.H2C {
		s.Spec.Ports[0].AppProtocol = ptr("kubernetes.io/h2c")
	}
	w.builder.SetService(s)
	for i, e := range endpoints {
		w.builder.SetEndpointSlice(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "demo", Name: fmt.Sprint(name, "-", i),
				Labels: map[string]string{discoveryv1.LabelServiceName: name},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(e.Port()))}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{e.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)}}},
		})
	}
}

// object makes an HTTPScaledObject for the host <name>.example.com.
func (w *world) object(name, service, split string, change func(*httpv1alpha1.HTTPScaledObject)) {
	o := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts:          []string{name + ".example.com"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: service, Port: ptr(int32(80))},
		},
	}
	if split != "" {
		o.Annotations = map[string]string{"http.kedify.io/weighted-backends": split}
	}
	if change != nil {
		change(o)
	}
	w.builder.SetHTTPScaledObject(o)
}

func ptr[T any](v T) *T { return &v }

// serve serves HTTP/1.1 and h2c on a free port.
func serve(t testing.TB, h http.Handler) netip.AddrPort {
	t.Helper()
	return serveOn(t, h, nil)
}

func serveOn(t testing.TB, h http.Handler, wrap func(net.Listener) net.Listener) netip.AddrPort {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 30}
	address := netip.MustParseAddrPort(s.Listener.Addr().String())
	if wrap != nil {
		s.Listener = wrap(s.Listener)
	}
	s.Start()
	t.Cleanup(s.Close)
	return address
}

// refusing returns an address that refuses connections.
func refusing(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return netip.MustParseAddrPort(l.Addr().String())
}
