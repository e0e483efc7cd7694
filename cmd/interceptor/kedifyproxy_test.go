package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

// stack is all of an interceptor but the part that reads the API server, with a table
// that the test makes, and a real Envoy as its kedify-proxy.
type stack struct {
	t        *testing.T
	o        *settings.Settings
	builder  *routes.Builder
	proxy    *proxy.Proxy
	xds      *xdsServer
	registry *prometheus.Registry

	logged output
	stop   func() // ends the listeners; the end of the test does, too

	// envoyAdmin is the Envoy's read-only port for everybody, envoyLoopback the port of
	// its admin interface, and envoyReady that of the kubelet.
	envoyAdmin, envoyLoopback, envoyReady uint16
	envoy                                 *envoytest.Envoy
}

func noProblems() []routes.Problem { return nil }

// alive is a health check that always passes: a stack watches nothing.
func alive() error { return nil }

// newStack serves on free ports until the test ends.
func newStack(t *testing.T, change func(*settings.Settings)) *stack {
	t.Helper()
	o := defaultSettings(t)
	s := &stack{t: t, o: o, registry: prometheus.NewRegistry()}
	freeport.Set(t, &o.ProxyPort, &o.TLSPort, &o.AdminPort, &o.MetricsPort, &o.FallbackPort,
		&o.XDSPort, &o.KedifyProxy.Port, &o.KedifyProxy.TLSPort, &s.envoyAdmin, &s.envoyLoopback, &s.envoyReady)
	if change != nil {
		change(o)
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	s.builder = routes.NewBuilderOf(o.Policy)
	log := slog.New(slog.NewTextHandler(&s.logged, nil))
	s.proxy = proxy.New(o.Proxy, log)
	var err error
	if s.xds, err = newXDS(o, s.proxy.Loads(), log, func(*routes.Table, routes.Changes) {}); err != nil {
		t.Fatal(err)
	}
	s.registry.MustRegister(s.proxy, s.xds)
	s.xds.SetFallback([]netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), o.FallbackPort)})
	var certificate *proxy.Certificate
	if o.CertFile != "" {
		if certificate, err = proxy.LoadCertificate(o.CertFile, o.KeyFile, log); err != nil {
			t.Fatal(err)
		}
	}
	ls, err := listen(t.Context(), o, s.proxy, s.proxy.Admin(noProblems, alive), certificate, s.xds, s.registry, log)
	if err != nil {
		t.Fatal(err)
	}
	failed := ls.serve()
	s.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = ls.shutdown(ctx) // what a test leaves open is cut
		select {
		case err := <-failed:
			t.Error(err)
		default:
		}
	})
	t.Cleanup(s.stop)
	if certificate != nil {
		go passCertificate(t.Context(), certificate, 50*time.Millisecond, s.xds.Server, log)
	}
	return s
}

// newStackOf is a stack whose listeners the test serves itself.
func newStackOf(t *testing.T, o *settings.Settings, p *proxy.Proxy, x *xdsServer) *stack {
	return &stack{t: t, o: o, builder: routes.NewBuilder(), proxy: p, xds: x}
}

// startEnvoy starts the Envoy, with a bootstrap as the interceptor prints it.
func (s *stack) startEnvoy(b envoy.BootstrapOptions, arguments ...string) {
	s.t.Helper()
	if b.XDSAddress == "" {
		b.XDSAddress, b.AdminAddress = fmt.Sprint("127.0.0.1:", s.o.XDSPort), fmt.Sprint("127.0.0.1:", s.envoyAdmin)
	}
	b.AdminPort, b.ReadyPort = s.envoyLoopback, s.envoyReady
	text, err := envoy.Bootstrap(b)
	if err != nil {
		s.t.Fatal(err)
	}
	s.envoy = envoytest.Start(s.t, text, arguments...)
}

// object makes an HTTPScaledObject for app.example.com and the Service app of its
// namespace. The host belongs to the object that was made first.
func (s *stack) object(namespace string, change ...func(*httpv1alpha1.HTTPScaledObject)) {
	port := int32(80)
	o := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "app", UID: types.UID(namespace),
			CreationTimestamp: metav1.Unix(int64(s.builder.Table().Len()), 0),
		},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: []string{"app.example.com"}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "app", Port: &port},
		},
	}
	for _, c := range change {
		c(o)
	}
	s.builder.SetHTTPScaledObject(o)
	s.service(namespace, "app")
}

func (s *stack) service(namespace, name string) {
	s.builder.SetService(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	})
	s.commit()
}

// endpoint makes an address the only endpoint of the Service app of a namespace.
func (s *stack) endpoint(namespace, address string) { s.endpoints(namespace, address) }

// endpoints makes addresses, two at most, the endpoints of the Service app of a namespace.
func (s *stack) endpoints(namespace string, addresses ...string) {
	s.endpointsOf(namespace, "app", addresses...)
}

func (s *stack) endpointsOf(namespace, service string, addresses ...string) {
	for i := range 2 {
		slice := types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(service, "-", i)}
		if i >= len(addresses) {
			s.builder.DeleteEndpointSlice(slice)
			continue
		}
		name, at := "http", netip.MustParseAddrPort(addresses[i])
		port := int32(at.Port())
		s.builder.SetEndpointSlice(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: slice.Name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Ports:      []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
		})
	}
	s.commit()
}

func (s *stack) commit() {
	table, changes := s.builder.Commit()
	s.proxy.SetTable(table)
	s.xds.Update(table, changes)
}

// metric returns the sum of a metric over all series of a namespace.
func (s *stack) metric(name, namespace string) (sum float64) {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if family.GetName() == name && label.GetName() == "namespace" && label.GetValue() == namespace {
					sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}

// ask sends a request for app.example.com, and returns the code and the body.
func ask(client *http.Client, scheme string, port uint16, method string, body io.Reader) (int, string, error) {
	return askAt(client, method, fmt.Sprintf("%s://127.0.0.1:%d/", scheme, port), body)
}

func askAt(client *http.Client, method, url string, body io.Reader) (int, string, error) {
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		return 0, "", err
	}
	r.Host = "app.example.com"
	response, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// answered waits until a client is answered with a text.
func (s *stack) answered(client *http.Client, scheme string, port uint16, want string) {
	s.t.Helper()
	s.envoy.Wait("the answer "+want, func() error {
		code, text, err := ask(client, scheme, port, http.MethodGet, nil)
		if err == nil && text != want {
			err = fmt.Errorf("answered %d %q", code, text)
		}
		return err
	})
}

// newClient makes a client whose idle connections are closed at the end of the test.
func newClient(t *testing.T, transport *http.Transport) *http.Client {
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: patience, Transport: transport}
}

// connected waits until the Envoy has its configuration from the interceptor.
func (s *stack) connected() {
	s.t.Helper()
	s.envoy.WaitReady()
	if s.envoy.Stat("control_plane.connected_state") != 1 {
		s.t.Fatal("the Envoy is ready without an interceptor")
	}
}
