package disruptive

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Without any interceptor the kedify-proxies keep the split they have: the check names
// each of them, the split it serves and the one it should, and that it is not connected
// to the interceptor. When the interceptors are back, the check finds nothing.
func TestCheckKedifyProxyLeftBehind(t *testing.T) {
	n := e2etest.NewNamespace(t)
	interceptortest.Pods(t)
	app := e2etest.App{Steps: "- setWeight: 20\n- pause: {}\n- setWeight: 50\n- pause: {}"}
	n.Apply(app.Manifest())
	n.AwaitHealthy("app", e2etest.Image("blue"))
	proxy := interceptortest.ApplyKedifyProxy(t, n)
	n.SetImage("app", e2etest.Image("red"))
	n.AwaitSplit("app", app.Split(20))
	n.AwaitPaused("app", 1)
	args := []string{"app", "-n", n.Name}
	checktest.AwaitHealthy(t, args...)

	scale := func(replicas int) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		_, err := n.Kube.AppsV1().Deployments(interceptortest.Namespace).Patch(context.Background(), interceptortest.Deployment, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { scale(interceptortest.Replicas) })
	scale(0)
	// The interceptors push changes to the Envoys until they are gone.
	e2etest.Eventually(t, e2etest.Patience, "the interceptors to be gone", func(ctx context.Context) error {
		pods, err := n.Kube.CoreV1().Pods(interceptortest.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + interceptortest.Deployment})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d are there", len(pods.Items))
		}
		return err
	})
	n.Promote("app")
	n.AwaitSplit("app", app.Split(50))
	n.AwaitPaused("app", 3)
	nothing := func() {}
	fault := checktest.Fault{
		Name: "no interceptor", Make: nothing,
		Want: []checktest.Finding{{
			Check: "interceptor-split", Status: checktest.Warning,
			Object: "Service keda-add-ons-http-interceptor-admin", Message: "selects no pod", Remedy: "scale its Deployment up",
		}},
	}
	for _, pod := range proxy.Pods() {
		fault.Want = append(fault.Want, checktest.Finding{
			Check: "kedify-proxy-split", Status: checktest.Failure, Object: "Pod " + pod.Name,
			Message: "serves app-stable=80,app-canary=20 for host app.example.com, expected app-stable=50,app-canary=50; it is not connected to the interceptor",
			Remedy:  "see whether the interceptor runs",
		})
	}
	fault.FindOnly(t, args...)

	scale(interceptortest.Replicas)
	interceptortest.Pods(t)
	checktest.AwaitHealthy(t, args...)
}
