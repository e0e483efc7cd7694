package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/server"
)

var interceptors = client.ObjectKey{Namespace: "keda", Name: "interceptors"}

// endpointSlice is of a Service; an address with ! is of a pod that is not ready.
func endpointSlice(namespace, service, name string, kind discoveryv1.AddressType, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: kind,
	}
	for _, address := range addresses {
		address, unready := strings.CutPrefix(address, "!")
		ready := !unready
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return s
}

// All interceptors are listened to, and those proxies that are ready are expected, each by
// one address.
func TestProxiesOfEndpointSlices(t *testing.T) {
	const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	unknown := endpointSlice("keda", "interceptors", "a", v4, "10.0.0.1")
	unknown.Endpoints[0].Conditions.Ready = nil
	ofPod := endpointSlice("demo", "kedify-proxy", "a", v4, "10.0.1.1")
	ofPod.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: "kedify-proxy-1"}
	for name, tt := range map[string]struct {
		slices []*discoveryv1.EndpointSlice
		want   found
	}{
		"none": {nil, found{}},
		"two slices": {
			[]*discoveryv1.EndpointSlice{endpointSlice("keda", "interceptors", "a", v4, "10.0.0.2", "10.0.0.1"), endpointSlice("keda", "interceptors", "b", v4, "10.0.0.3", "10.0.0.2")},
			found{interceptors: []string{"10.0.0.1:9090", "10.0.0.2:9090", "10.0.0.3:9090"}, ready: []string{"10.0.0.1:9090", "10.0.0.2:9090", "10.0.0.3:9090"}},
		},
		"one that is not ready": {
			[]*discoveryv1.EndpointSlice{endpointSlice("keda", "interceptors", "a", v4, "10.0.0.1", "!10.0.0.2")},
			found{interceptors: []string{"10.0.0.1:9090", "10.0.0.2:9090"}, ready: []string{"10.0.0.1:9090"}},
		},
		"readiness unknown": {
			[]*discoveryv1.EndpointSlice{unknown},
			found{interceptors: []string{"10.0.0.1:9090"}, ready: []string{"10.0.0.1:9090"}},
		},
		"another namespace's": {[]*discoveryv1.EndpointSlice{endpointSlice("demo", "interceptors", "a", v4, "10.0.0.1")}, found{}},
		"both families": {
			[]*discoveryv1.EndpointSlice{endpointSlice("keda", "interceptors", "b", v6, "fd00::1"), endpointSlice("keda", "interceptors", "a", v4, "10.0.0.1")},
			found{interceptors: []string{"10.0.0.1:9090"}, ready: []string{"10.0.0.1:9090"}},
		},
		"IPv6": {
			[]*discoveryv1.EndpointSlice{endpointSlice("keda", "interceptors", "b", v6, "fd00::1"), endpointSlice("keda", "interceptors", "a", v4)},
			found{interceptors: []string{"[fd00::1]:9090"}, ready: []string{"[fd00::1]:9090"}},
		},
		"a kedify-proxy in a pod": {
			[]*discoveryv1.EndpointSlice{ofPod},
			found{kedifyProxies: map[string][]string{"demo": {"demo/kedify-proxy-1"}}},
		},
		"kedify-proxies": {
			[]*discoveryv1.EndpointSlice{
				endpointSlice("demo", "kedify-proxy", "a", v4, "10.0.1.2", "10.0.1.1"), endpointSlice("shop", "kedify-proxy", "a", v4, "10.0.2.1"),
				endpointSlice("idle", "kedify-proxy", "a", v4, "!10.0.3.1"),
			},
			found{kedifyProxies: map[string][]string{"demo": {"10.0.1.1", "10.0.1.2"}, "shop": {"10.0.2.1"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var items []discoveryv1.EndpointSlice
			for _, s := range tt.slices {
				items = append(items, *s)
			}
			got := read(items, interceptors, 9090)
			if len(got.kedifyProxies) == 0 {
				got.kedifyProxies = nil
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(found{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// newCache starts the scaler's cache of a test's API server, and returns it synced.
func newCache(t *testing.T, api *apiservertest.Server) cache.Cache {
	t.Helper()
	api.Serve("http.keda.sh", apiservertest.Version{Name: "v1alpha1", Kinds: map[string]string{"HTTPScaledObject": "httpscaledobjects"}})
	api.Serve("discovery.k8s.io", apiservertest.Version{Name: "v1", Kinds: map[string]string{"EndpointSlice": "endpointslices"}})
	config, err := api.Config()
	if err != nil {
		t.Fatal(err)
	}
	options, err := CacheOptions(interceptors.Name)
	if err != nil {
		t.Fatal(err)
	}
	options.Mapper = Mapper()
	if options.Scheme, err = Scheme(); err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(config, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := Watch(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache does not sync")
	}
	return c
}

// Of HTTPScaledObjects the cache keeps what is read. It asks for no other EndpointSlices
// than those of the proxies, and for nothing else.
func TestCacheHoldsWhatIsRead(t *testing.T) {
	api := apiservertest.New(t)
	target := 5
	window, granularity := strings.Repeat("1s", 1000), "1s"
	cutWindow := window[:32] + "…"
	metric := &httpv1alpha1.ScalingMetric{
		Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: &target},
		RequestRate: &httpv1alpha1.RequestRateMetric{Window: &window, Granularity: &granularity},
	}
	api.PutObject("httpscaledobjects", &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "web", UID: "1", Labels: map[string]string{"a": "b"},
			Annotations:   map[string]string{server.NotWired: strings.Repeat("w", 1000), "http.kedify.io/weighted-backends": "much"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec:   httpv1alpha1.HTTPScaledObjectSpec{Hosts: []string{"a.test"}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "web"}, ScalingMetric: metric},
		Status: httpv1alpha1.HTTPScaledObjectStatus{TargetService: "web"},
	})
	api.PutObject("endpointslices", endpointSlice("demo", "other", "before", discoveryv1.AddressTypeIPv4, "10.0.0.9"))
	api.PutObject("endpointslices", endpointSlice("demo", "kedify-proxy", "before-2", discoveryv1.AddressTypeIPv4, "10.0.0.1"))
	c := newCache(t, api)
	var got httpv1alpha1.HTTPScaledObject
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "web"}, &got); err != nil {
		t.Fatal(err)
	}
	want := httpv1alpha1.HTTPScaledObject{
		TypeMeta: got.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "web", ResourceVersion: got.ResourceVersion,
			Annotations: map[string]string{server.NotWired: strings.Repeat("w", 200) + "…"},
		},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: &httpv1alpha1.ScalingMetric{
			Concurrency: metric.Concurrency,
			RequestRate: &httpv1alpha1.RequestRateMetric{Window: &cutWindow, Granularity: &granularity},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	api.PutObject("endpointslices", endpointSlice("demo", "other", "after", discoveryv1.AddressTypeIPv4, "10.0.0.8"))
	api.PutObject("endpointslices", endpointSlice("keda", "interceptors", "after", discoveryv1.AddressTypeIPv4, "10.0.0.2"))
	eventually(t, func() error {
		var list discoveryv1.EndpointSliceList
		if err := c.List(t.Context(), &list); err != nil {
			return err
		}
		var names []string
		for _, s := range list.Items {
			names = append(names, s.Namespace+"/"+s.Name)
		}
		slices.Sort(names)
		if diff := cmp.Diff([]string{"demo/before-2", "keda/after"}, names); diff != "" {
			return fmt.Errorf("EndpointSlices in the cache (-want +got):\n%s", diff)
		}
		return nil
	})
	for _, request := range api.Requests() {
		if request.Verb != "list" && request.Verb != "watch" || !slices.Contains([]string{"httpscaledobjects", "endpointslices"}, request.Resource) {
			t.Errorf("request %s, which the scaler may not make", request)
		}
	}
}

// interceptorStreams are those that are asked for.
type interceptorStreams struct {
	mu    sync.Mutex
	set   []string
	tried bool
}

func (s *interceptorStreams) Set(interceptors []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = interceptors
}

func (s *interceptorStreams) Tried() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried
}

// Figures and streams follow the EndpointSlices, and are ready when all interceptors had
// time to report.
func TestProxiesFollowEndpointSlices(t *testing.T) {
	api := apiservertest.New(t)
	api.PutObject("endpointslices", endpointSlice("keda", "interceptors", "a", discoveryv1.AddressTypeIPv4, "10.0.0.1", "!10.0.0.2"))
	f, streams := figures.New(time.Now), new(interceptorStreams)
	p := &Proxies{Cache: newCache(t, api), Figures: f, Streams: streams, Interceptors: interceptors, Port: 9090}
	unready := func(says string) {
		t.Helper()
		if err := p.Ready(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
	}
	unready("has not read the EndpointSlices")
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() {
		if err := p.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	has := func(missing string, want ...string) {
		t.Helper()
		eventually(t, func() error {
			streams.mu.Lock()
			defer streams.mu.Unlock()
			if !slices.Equal(streams.set, want) {
				return fmt.Errorf("streams of %q, want %q", streams.set, want)
			}
			if err := f.Missing("demo", time.Minute); err == nil || !strings.Contains(err.Error(), missing) {
				return fmt.Errorf("figures: %w, want %q", err, missing)
			}
			return nil
		})
	}
	has("interceptor 10.0.0.1:9090", "10.0.0.1:9090", "10.0.0.2:9090")
	unready("knows rates after 10s")
	api.Delete("endpointslices", "keda", "a")
	has("no interceptor is ready")

	earlier := time.Now().Add(-settling)
	p.began.Store(&earlier)
	unready("has not reached all interceptors")
	streams.mu.Lock()
	streams.tried = true
	streams.mu.Unlock()
	if err := p.Ready(); err != nil {
		t.Error(err)
	}
	streams.mu.Lock()
	streams.tried = false // of an interceptor that has come
	streams.mu.Unlock()
	if err := p.Ready(); err != nil {
		t.Error(err)
	}
}

// A name that cannot be that of a Service is refused.
func TestInterceptorServiceThatCannotBe(t *testing.T) {
	if _, err := CacheOptions("no name"); err == nil || !strings.Contains(err.Error(), "the Service of interceptors") {
		t.Errorf("%v; want an error that names the Service", err)
	}
}

// eventually waits until a check returns no error.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	err := errors.New("not checked")
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatal(err)
}
