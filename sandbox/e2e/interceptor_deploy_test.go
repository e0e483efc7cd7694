package e2e

import (
	"context"
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

// awaitAnswer waits until a URL answers requests for a host with 200 and a body.
func awaitAnswer(t *testing.T, url, host, body string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "an answer for "+host+" at "+url, func(ctx context.Context) error {
		got, err := e2etest.Get(ctx, url, host)
		if err == nil && got != body {
			err = fmt.Errorf("it answers %q", got)
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
		if got, err := e2etest.Ask(t.Context(), url, ""); err != nil || got.Status != http.StatusOK {
			t.Errorf("%s answers %d %q (%v)", url, got.Status, got.Body, err)
		}
	}
	// The interceptors have found the fallback of kedify-proxies: their own Service.
	if got, err := e2etest.Ask(t.Context(), interceptortest.MetricsURL+"/metrics", ""); err != nil || !strings.Contains(got.Body, "\ninterceptor_fallback_addresses 1\n") {
		t.Errorf("there is no fallback (%v):\n%s", err, got.Body)
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
// only. Its Envoys serve the hosts of their namespace.
func TestKedifyProxyIsDeployed(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Kubectl("label", "namespace", n.Name, restricted)
	interceptortest.Pods(t)
	address := e2etest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	n.ServiceAt("app", traffictest.Addr(strings.TrimPrefix(address, "http://")), "")
	host := "app." + n.Name
	n.Apply(traffictest.Object{Name: "app", Hosts: []string{host}, Service: "app"}.Manifest())
	proxy := interceptortest.ApplyKedifyProxy(t, n)
	for _, pod := range proxy.Pods() {
		if pod.Spec.ServiceAccountName != "kedify-proxy" {
			t.Errorf("pod %s runs under ServiceAccount %s", pod.Name, pod.Spec.ServiceAccountName)
		}
		awaitAnswer(t, e2etest.PodURL(pod, 8080)+"/", host, "hello")
	}
	awaitAnswer(t, proxy.URL+"/", host, "hello")
	if got, err := e2etest.Ask(t.Context(), proxy.URL+"/", "nobody."+n.Name); err != nil || got.Status != http.StatusNotFound {
		t.Errorf("a host of nobody's: %d %q (%v), want 404", got.Status, got.Body, err)
	}
}
