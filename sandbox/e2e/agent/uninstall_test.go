package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// ingress sends requests of a host to the App's stable Service.
func ingress(host string) string {
	return `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: app
spec:
  rules:
    - host: ` + host + `
      http:
        paths:
          - path: /
            pathType: Prefix
            backend: {service: {name: app-stable, port: {number: 80}}}
`
}

// `agent uninstall` leaves the objects of users as they were before there was an agent, and
// nobody has to contend with it. It waits for the agents to end, may be run again, and the
// HTTPScaledObjects go with their ScaledObjects.
//
// It is not parallel: it takes the agent away from all tests.
func TestUninstall(t *testing.T) {
	n := e2etest.NewNamespace(t)
	scaleAgent(t, 0)
	manifest := canary().Services() + canary().Rollout() + ingress(n.Name+".test") + scaled{metadata: map[string]string{"trafficAutowire": "ingress"}}.manifest(n.Name+".test")
	n.Apply(manifest)
	n.AwaitHealthy(app, e2etest.Image("blue"))
	before := objectsOfUsers(t, n)

	scaleAgent(t, 2)
	e2etest.Eventually(t, e2etest.Patience, "the Ingress points at kedify-proxy", func(ctx context.Context) error {
		found, err := n.Kube.NetworkingV1().Ingresses(n.Name).Get(ctx, app, metav1.GetOptions{})
		if err == nil && found.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name != "kedify-proxy" {
			return fmt.Errorf("it does not: %v", found.Spec.Rules)
		}
		return err
	})

	uninstall := "-k " + e2etest.Repository(t, "deploy", "agent-uninstall")
	defer func() {
		e2etest.Shell(t, "kubectl delete --ignore-not-found "+uninstall)
		e2etest.Shell(t, "kubectl apply --server-side --force-conflicts -k "+e2etest.Repository(t, "deploy", "agent"))
		scaleAgent(t, 2)
	}()
	e2etest.Shell(t, "kubectl apply "+uninstall)
	awaitLog(t, "held by")
	if now := objectsOfUsers(t, n); cmp.Equal(before, now) {
		t.Error("something is taken back while an agent runs")
	}
	scaleAgent(t, 0)
	awaitJob(t)
	for _, line := range []string{"ScaledObject " + n.Name + "/app: its trigger is kedify-http", "HTTPScaledObject " + n.Name + "/app: released", "done: delete the kedify-proxies"} {
		awaitLog(t, line)
	}
	e2etest.Eventually(t, e2etest.Patience, "all is as it was", func(context.Context) error {
		if diff := cmp.Diff(before, objectsOfUsers(t, n)); diff != "" {
			return fmt.Errorf("(-before the agent +after it):\n%s", diff)
		}
		return nil
	})
	object := n.HTTPScaledObject(app)
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 || object.GetAnnotations()["http.kedify.io/not-wired"] != "" {
		t.Errorf("the HTTPScaledObject has the finalizers %q and the annotations %v", finalizers, object.GetAnnotations())
	}
	// Whoever applies other triggers has no conflict.
	n.Kubectl("apply", "--server-side", "--field-manager=somebody", "-f", writeFile(t,
		`{"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject","metadata":{"name":"app"},"spec":{"triggers":[{"type":"kedify-http","metadata":{"hosts":"other.test"}}]}}`))

	e2etest.Shell(t, "kubectl delete "+uninstall+" && kubectl apply "+uninstall)
	awaitJob(t)
	n.Kubectl("delete", "scaledobject", app)
	awaitGone(t, n)
}

// objectsOfUsers are the fields of an Ingress and a ScaledObject that users write, and their
// owners, and the names of what else is in the namespace.
func objectsOfUsers(t *testing.T, n *e2etest.Namespace) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, resource := range []schema.GroupVersionResource{
		{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	} {
		object, err := n.Dynamic.Resource(resource).Namespace(n.Name).Get(t.Context(), app, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		owners := map[string]bool{}
		for _, entry := range object.GetManagedFields() {
			owners[entry.Manager] = true
		}
		labels := object.GetLabels()
		delete(labels, "scaledobject.keda.sh/name") // KEDA's, which comes when KEDA has looked
		all[resource.Resource] = []any{object.Object["spec"], labels, object.GetAnnotations()}
		if owners["kedify-agent"] {
			all[resource.Resource+" of"] = slices.Sorted(maps.Keys(owners))
		}
	}
	names := n.Kubectl("get", "deployments,services,configmaps,serviceaccounts,networkpolicies,poddisruptionbudgets", "-o", "name")
	all["names"] = strings.Fields(names)
	return all
}

// awaitLog waits until a pod of the Job has said something.
func awaitLog(t *testing.T, text string) {
	t.Helper()
	e2etest.Eventually(t, 2*e2etest.Patience, "the Job says "+text, func(ctx context.Context) error {
		log, err := e2etest.TryShell(ctx, "kubectl -n "+keda.Namespace+" logs --tail=-1 -l app.kubernetes.io/name=kedify-agent-uninstall")
		if err == nil && !strings.Contains(log, text) {
			err = fmt.Errorf("it says:\n%s", log)
		}
		return err
	})
}

// awaitJob waits until the Job has completed.
func awaitJob(t *testing.T) {
	t.Helper()
	e2etest.Shell(t, "kubectl -n "+keda.Namespace+" wait --for=condition=Complete --timeout=3m job/kedify-agent-uninstall")
}
