package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// restricted is the label of a namespace that admits only pods of the restricted
// Pod Security Standard.
const restricted = "pod-security.kubernetes.io/enforce=restricted"

// answer is the status and the body of an HTTP response.
type answer struct {
	status int
	body   string
}

// ask sends a GET request for a host to a URL.
func ask(ctx context.Context, url, host string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	request.Host = host
	response, err := newClient().Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(body)}, err
}

// awaitAnswer waits until a URL answers requests for a host with 200 and a body.
func awaitAnswer(t *testing.T, url, host, body string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "an answer for "+host+" at "+url, func(ctx context.Context) error {
		got, err := ask(ctx, url, host)
		if err == nil && (got.status != http.StatusOK || got.body != body) {
			err = fmt.Errorf("it answers %d %q", got.status, got.body)
		}
		return err
	})
}

// Two interceptors run from deploy/interceptor, in a namespace that admits restricted
// pods only, and each of them serves requests.
func TestInterceptorIsDeployed(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	pods := interceptortest.Pods(t)
	namespace, err := n.Kube.CoreV1().Namespaces().Get(t.Context(), interceptortest.Namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if key, value, _ := strings.Cut(restricted, "="); namespace.Labels[key] != value {
		t.Errorf("namespace %s takes other pods, too: %v", namespace.Name, namespace.Labels)
	}
	n.Apply(e2etest.App{}.Manifest())
	// Other tests have an app of the same name, thus host, and share the interceptors.
	host := n.Name + ".test"
	n.Kubectl("patch", "httpscaledobject", "app", "--type=merge", "--patch", `{"spec":{"hosts":["`+host+`"]}}`)
	n.AwaitHealthy("app", e2etest.Image("blue"))
	for _, pod := range pods {
		if pod.Spec.ServiceAccountName != interceptortest.ServiceAccount {
			t.Errorf("pod %s runs under ServiceAccount %s", pod.Name, pod.Spec.ServiceAccountName)
		}
		awaitAnswer(t, e2etest.PodURL(pod, 8080)+"/color", host, `"blue"`)
	}
	awaitAnswer(t, interceptortest.URL+"/color", host, `"blue"`)
	for _, url := range []string{interceptortest.AdminURL + "/healthz", interceptortest.AdminURL + "/readyz", interceptortest.MetricsURL + "/metrics"} {
		if got, err := ask(t.Context(), url, ""); err != nil || got.status != http.StatusOK {
			t.Errorf("%s answers %d %q (%v)", url, got.status, got.body, err)
		}
	}
	// The interceptors have found the fallback of kedify-proxies: their own Service.
	if got, err := ask(t.Context(), interceptortest.MetricsURL+"/metrics", ""); err != nil || !strings.Contains(got.body, "\ninterceptor_fallback_addresses 1\n") {
		t.Errorf("there is no fallback (%v):\n%s", err, got.body)
	}
}

// The interceptor's ServiceAccount has the rights of its ClusterRole and no
// others.
func TestInterceptorRights(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	interceptortest.Pods(t)
	allowed := []string{
		"list http.keda.sh/httpscaledobjects", "watch http.keda.sh/httpscaledobjects",
		"list /services", "watch /services",
		"list discovery.k8s.io/endpointslices", "watch discovery.k8s.io/endpointslices",
		"create /events", "patch /events",
	}
	for _, resource := range []string{
		"http.keda.sh/httpscaledobjects", "/services", "discovery.k8s.io/endpointslices", "/events",
		"/secrets", "/configmaps", "/pods", "apps/deployments", "argoproj.io/rollouts", "coordination.k8s.io/leases",
	} {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			group, name, _ := strings.Cut(resource, "/")
			review, err := n.Kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User:               "system:serviceaccount:" + interceptortest.Namespace + ":" + interceptortest.ServiceAccount,
					Groups:             []string{"system:serviceaccounts", "system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: n.Name, Verb: verb, Group: group, Resource: name},
				},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if what := verb + " " + resource; review.Status.Allowed != slices.Contains(allowed, what) {
				t.Errorf("%s: allowed is %t", what, review.Status.Allowed)
			}
		}
	}
}

// kedify-proxy runs from deploy/kedify-proxy in a namespace that admits restricted pods
// only. Its Envoys serve the hosts of their namespace, and finish the requests under way
// before they stop.
func TestKedifyProxyIsDeployed(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Kubectl("label", "namespace", n.Name, restricted)
	interceptortest.Pods(t)
	held := serveHeld(t, n)
	proxy := interceptortest.ApplyKedifyProxy(t, n)
	pods := proxy.Pods()
	for _, pod := range pods {
		if pod.Spec.ServiceAccountName != "kedify-proxy" {
			t.Errorf("pod %s runs under ServiceAccount %s", pod.Name, pod.Spec.ServiceAccountName)
		}
		awaitAnswer(t, e2etest.PodURL(pod, 8080)+"/", held.host, "hello")
	}
	awaitAnswer(t, proxy.URL+"/", held.host, "hello")
	if got, err := ask(t.Context(), proxy.URL+"/", "nobody."+n.Name); err != nil || got.status != http.StatusNotFound {
		t.Errorf("a host of nobody's: %d %q (%v), want 404", got.status, got.body, err)
	}

	// A pod is deleted while a request through it is under way.
	stopping := pods[0]
	type outcome struct {
		answer
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		got, err := ask(t.Context(), e2etest.PodURL(stopping, 8080)+"/held", held.host)
		done <- outcome{got, err}
	}()
	<-held.arrived
	if err := n.Kube.CoreV1().Pods(n.Name).Delete(t.Context(), stopping.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e2etest.Eventually(t, e2etest.Patience, "pod "+stopping.Name+" drains", func(ctx context.Context) error {
		got, err := ask(ctx, e2etest.PodURL(stopping, 9901)+"/ready", "")
		if err == nil && got.status == http.StatusOK {
			err = errors.New("Envoy is ready as before")
		}
		return err
	})
	close(held.release)
	if got := <-done; got.err != nil || got.status != http.StatusOK || got.body != "hello" {
		t.Errorf("the request under way: %d %q, %v", got.status, got.body, got.err)
	}
	proxy.Pods() // the deleted pod is gone, and a new one is ready
	events, err := n.Kube.CoreV1().Events(n.Name).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedPreStopHook"})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events.Items {
		t.Errorf("pod %s: %s", event.InvolvedObject.Name, event.Message)
	}
}

// held is a backend that the test itself serves. It answers at once, except for /held:
// it closes arrived, and answers when release is closed.
type held struct {
	host             string
	arrived, release chan struct{}
}

// serveHeld starts a held backend, and applies an HTTPScaledObject for it and a Service
// that selects no pods but leads to it.
func serveHeld(t *testing.T, n *e2etest.Namespace) held {
	t.Helper()
	h := held{host: "held." + n.Name, arrived: make(chan struct{}), release: make(chan struct{})}
	address := e2etest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			close(h.arrived)
			<-h.release
		}
		_, _ = io.WriteString(w, "hello")
	}))
	n.ServiceAt("held", traffictest.Addr(strings.TrimPrefix(address, "http://")), "")
	n.Apply(traffictest.Object{Name: "held", Hosts: []string{h.host}, Service: "held"}.Manifest())
	return h
}
