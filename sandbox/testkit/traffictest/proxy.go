// Package traffictest sends requests through both proxies, the interceptor's own and
// Envoy, and records the outcome of each.
package traffictest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The ports at which the proxies' pods show what they serve.
const (
	interceptorAdminPort = 9090
	envoyAdminPort       = 9901
)

// A Proxy is one of the two that split requests.
type Proxy struct {
	// Name is "embedded" or "envoy".
	Name string
	// Address is the host:port that clients connect to.
	Address string
	// Smooth tells that its choice is not random: of any 100 requests in a row
	// a backend gets its share, give or take one.
	Smooth bool
	// Prefix is what the paths of a load's requests begin with, such as /app.
	Prefix string

	namespace *e2etest.Namespace
	envoy     *interceptortest.KedifyProxy // nil for the interceptor's
}

// Both runs a test for each proxy, at the same time, each in a namespace of its
// own.
func Both(t *testing.T, test func(t *testing.T, n *e2etest.Namespace, p Proxy)) {
	t.Helper()
	for _, name := range []string{"embedded", "envoy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			of := Embedded
			if name == "envoy" {
				of = Envoy
			}
			test(t, n, of(t, n))
		})
	}
}

// Embedded returns the interceptor's own proxy, which all namespaces share.
func Embedded(t testing.TB, n *e2etest.Namespace) Proxy {
	t.Helper()
	interceptortest.Pods(t)
	return Proxy{Name: "embedded", Address: strings.TrimPrefix(interceptortest.URL, "http://"), Smooth: true, namespace: n}
}

// Envoy starts kedify-proxies for a namespace.
func Envoy(t testing.TB, n *e2etest.Namespace) Proxy {
	t.Helper()
	e := interceptortest.ApplyKedifyProxy(t, n)
	p := Proxy{Name: "envoy", Address: strings.TrimPrefix(e.URL, "http://"), namespace: n, envoy: e}
	p.awaitService(t)
	return p
}

// awaitService waits until the proxy's Service takes connections: when its pods
// are ready, the node may not have heard of it yet.
func (p Proxy) awaitService(t testing.TB) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "connecting to "+p.Address, func(ctx context.Context) error {
		conn, err := p.Dial(ctx, "tcp", "")
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Pods waits until all of its replicas are ready, and returns their pods.
func (p Proxy) Pods(t testing.TB) []corev1.Pod {
	t.Helper()
	if p.envoy != nil {
		return p.envoy.Pods()
	}
	return interceptortest.Pods(t)
}

// Client returns a client that connects to the proxy whatever the URL says, until
// the test ends.
func (p Proxy) Client(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DialContext: p.Dial, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Await waits until a plain request for a host and path is answered with 200 by
// each replica, and the Service takes connections.
func (p Proxy) Await(t testing.TB, host, path string) {
	t.Helper()
	for _, pod := range p.Pods(t) {
		url := e2etest.PodURL(pod, 8080) + path
		e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("%s answers for %s%s", pod.Name, host, path), func(ctx context.Context) error {
			_, err := e2etest.Get(ctx, url, host)
			return err
		})
	}
	p.awaitService(t)
}

// AwaitShares waits until every replica says that it serves an HTTPScaledObject
// of the namespace with these shares, by Service; those of 0 need not be named.
func (p Proxy) AwaitShares(t testing.TB, object string, want map[string]int) {
	t.Helper()
	want = without0(want)
	for _, pod := range p.Pods(t) {
		e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("%s serves %s with %v", pod.Name, object, want), func(ctx context.Context) error {
			got, err := p.shares(ctx, pod, object)
			if err == nil && !maps.Equal(without0(got), want) {
				err = fmt.Errorf("it serves it with %v", got)
			}
			return err
		})
	}
}

// AwaitConfigured waits until every replica serves an HTTPScaledObject of the
// namespace, in any way.
func (p Proxy) AwaitConfigured(t testing.TB, object string) {
	t.Helper()
	for _, pod := range p.Pods(t) {
		e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("%s serves %s", pod.Name, object), func(ctx context.Context) error {
			_, err := p.shares(ctx, pod, object)
			return err
		})
	}
}

// AwaitProblem waits until every interceptor knows of a problem of an
// HTTPScaledObject of the namespace.
func (p Proxy) AwaitProblem(t testing.TB, object, reason string) {
	t.Helper()
	p.awaitProblems(t, "knows of "+reason+" of "+object, func(reasons map[string][]string) bool { return slices.Contains(reasons[object], reason) })
}

// AwaitNoProblem waits until no interceptor knows of a problem of an
// HTTPScaledObject of the namespace.
func (p Proxy) AwaitNoProblem(t testing.TB, object string) {
	t.Helper()
	p.awaitProblems(t, "knows of no problem of "+object, func(reasons map[string][]string) bool { return len(reasons[object]) == 0 })
}

// awaitProblems waits until are returns true for the problems that every interceptor
// reports for the namespace, given as reasons by object.
func (p Proxy) awaitProblems(t testing.TB, what string, are func(reasons map[string][]string) bool) {
	t.Helper()
	for _, pod := range interceptortest.Pods(t) {
		e2etest.Eventually(t, e2etest.Patience, pod.Name+" "+what, func(ctx context.Context) error {
			table, err := routesOf(ctx, pod)
			if err != nil {
				return err
			}
			reasons := make(map[string][]string)
			for _, problem := range table.Problems {
				if problem.Namespace == p.namespace.Name {
					reasons[problem.Name] = append(reasons[problem.Name], problem.Reason)
				}
			}
			if !are(reasons) {
				return fmt.Errorf("its problems are %+v", table.Problems)
			}
			return nil
		})
	}
}

// AwaitSplit is AwaitShares for the weights of an App's Rollout, which has the same
// name as its HTTPScaledObject.
func (p Proxy) AwaitSplit(t testing.TB, app string, canary int) {
	t.Helper()
	p.AwaitShares(t, app, map[string]int{app + "-stable": 100 - canary, app + "-canary": canary})
}

func without0(shares map[string]int) map[string]int {
	some := maps.Clone(shares)
	maps.DeleteFunc(some, func(_ string, share int) bool { return share == 0 })
	if len(some) == 1 { // the only Service gets everything
		for service := range some {
			some[service] = 1
		}
	}
	return some
}

// shares returns the weights that a replica gives to the Services of an
// HTTPScaledObject.
func (p Proxy) shares(ctx context.Context, pod corev1.Pod, object string) (map[string]int, error) {
	if p.envoy != nil {
		return p.envoyShares(ctx, pod, object)
	}
	table, err := routesOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	for _, route := range table.Routes {
		if route.Namespace == p.namespace.Name && route.Name == object {
			shares := map[string]int{}
			for _, b := range route.Backends {
				shares[b.Service] = b.Share
			}
			return shares, nil
		}
	}
	return nil, fmt.Errorf("%s has no route for it", pod.Name)
}

// table is what /debug/routes of an interceptor shows, as far as it is needed.
type table struct {
	Routes []struct {
		Namespace, Name string
		Backends        []struct {
			Service string
			Share   int
		}
	}
	Problems []struct{ Namespace, Name, Reason, Message string }
}

func routesOf(ctx context.Context, interceptor corev1.Pod) (t table, err error) {
	err = getJSON(ctx, e2etest.PodURL(interceptor, interceptorAdminPort)+"/debug/routes", &t)
	return t, err
}

// envoyShares reads the shares from the configuration that an Envoy dumps.
func (p Proxy) envoyShares(ctx context.Context, pod corev1.Pod, object string) (map[string]int, error) {
	var dump any
	if err := getJSON(ctx, e2etest.PodURL(pod, envoyAdminPort)+"/config_dump?resource=dynamic_route_configs", &dump); err != nil {
		return nil, err
	}
	shares := map[string]int{}
	prefix := p.namespace.Name + "/" + object + "/"
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, element := range v {
				walk(element)
			}
		case map[string]any:
			if cluster, ok := v["cluster"].(string); ok && strings.HasPrefix(cluster, prefix) {
				shares[strings.TrimPrefix(cluster, prefix)] = 1
			}
			if name, ok := v["name"].(string); ok && strings.HasPrefix(name, prefix) {
				weight, _ := v["weight"].(float64)
				shares[strings.TrimPrefix(name, prefix)] = int(weight)
			}
			for _, element := range v {
				walk(element)
			}
		}
	}
	walk(dump)
	if len(shares) == 0 {
		return nil, fmt.Errorf("%s has no route for it", pod.Name)
	}
	return shares, nil
}

func getJSON(ctx context.Context, url string, into any) error {
	body, err := e2etest.Get(ctx, url, "")
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(body), into)
}
