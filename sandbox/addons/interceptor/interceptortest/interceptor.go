// Package interceptortest tells end-to-end tests where the interceptor and
// kedify-proxy are, and waits until they are ready.
package interceptortest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The names of the interceptor's objects in deploy/interceptor.
const (
	Namespace      = interceptor.Namespace
	Deployment     = interceptor.Deployment
	ServiceAccount = "keda-add-ons-http-interceptor"
	// ClusterRole is the name of its ClusterRole and of its binding.
	ClusterRole = "keda-add-ons-http-interceptor"
)

// Replicas is how many interceptors serve in the sandbox.
const Replicas = 2

// URLs of the interceptor's Services, without a slash at their ends. Each
// connection goes to one of the replicas.
const (
	URL        = "http://" + Deployment + "-proxy." + Namespace + ".svc.cluster.local:8080"
	AdminURL   = "http://" + Deployment + "-admin." + Namespace + ".svc.cluster.local:9090"
	MetricsURL = "http://" + Deployment + "-admin." + Namespace + ".svc.cluster.local:2223"
)

// Pods waits until all replicas of the interceptor, which the tests of a package
// share, are ready, and returns them.
func Pods(t testing.TB) []corev1.Pod {
	t.Helper()
	return e2etest.Connect(t).AwaitReplicas(t, Namespace, Deployment, Replicas)
}

// KedifyProxyReplicas is how many kedify-proxies ApplyKedifyProxy starts.
const KedifyProxyReplicas = 2

// KedifyProxy is the Envoys of a namespace.
type KedifyProxy struct {
	// URL and AdminURL are the URLs of the Services kedify-proxy and
	// kedify-proxy-admin, without a slash at their ends.
	URL, AdminURL string

	t testing.TB
	n *e2etest.Namespace
}

// ApplyKedifyProxy applies deploy/kedify-proxy to the namespace, and waits until
// all of its Envoys are ready: configured by the interceptor.
func ApplyKedifyProxy(t testing.TB, n *e2etest.Namespace) *KedifyProxy {
	t.Helper()
	n.Kubectl("apply", "--server-side", "-k", e2etest.Repository(t, "deploy", "kedify-proxy"))
	host := "." + n.Name + ".svc.cluster.local"
	p := &KedifyProxy{URL: "http://kedify-proxy" + host + ":8080", AdminURL: "http://kedify-proxy-admin" + host + ":9901", t: t, n: n}
	p.Pods()
	return p
}

// Pods waits until all kedify-proxies are ready, and returns their pods.
func (p *KedifyProxy) Pods() []corev1.Pod {
	p.t.Helper()
	return p.n.AwaitReplicas(p.t, p.n.Name, "kedify-proxy", KedifyProxyReplicas)
}
