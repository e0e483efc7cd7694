package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/agent"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/gitopstest"
)

// scaledObject is as a user writes it, with a trigger of KEDA's own beside ours.
const scaledObject = `apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: app
spec:
  scaleTargetRef:
    name: app
  triggers:
    - type: kedify-http
      name: requests
      metadata:
        hosts: app.example.com
        service: app
        port: "80"
        scalingMetric: requestRate
        targetValue: "5"
    - type: cron
      metadata:
        timezone: UTC
        start: 0 6 * * *
        end: 0 20 * * *
        desiredReplicas: "2"
`

// written and served are its first trigger as the user writes it, and as KEDA gets it.
var (
	written = map[string]any{"type": "kedify-http", "name": "requests", "metadata": map[string]any{
		"hosts": "app.example.com", "service": "app", "port": "80", "scalingMetric": "requestRate", "targetValue": "5",
	}}
	served = map[string]any{"type": "external-push", "name": "requests", "metadata": map[string]any{
		"hosts": "app.example.com", "service": "app", "port": "80", "scalingMetric": "requestRate", "targetValue": "5",
		"scalerAddress": "keda-add-ons-http-external-scaler.keda:9090", "triggerType": "kedify-http",
	}}
)

// ways are how users apply a manifest.
var ways = map[string][]string{"client-side": gitopstest.ClientSide, "server-side": gitopstest.ServerSide("gitops")}

// KEDA gets external-push whichever way the ScaledObject is applied. What is applied again,
// by people or by a GitOps tool, is no change, and kubectl diff shows none.
func TestTriggerIsMutatedAndAppliesAgain(t *testing.T) {
	t.Parallel()
	for name, flags := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			file := writeFile(t, scaledObject)
			kubectl := func(verb string, further ...string) string {
				return n.Kubectl(append(append([]string{verb}, flags[1:]...), append(further, "-f", file)...)...)
			}
			dry := kubectl("apply", "--dry-run=server", "-o", "jsonpath={.spec.triggers[0].type}")
			if dry != "external-push" {
				t.Errorf("a dry run has a trigger of type %q", dry)
			}
			if out := n.Kubectl("get", "scaledobjects", "-o", "name"); out != "" {
				t.Fatalf("the dry run has stored %s", out)
			}
			kubectl("apply")
			requireTrigger(t, getScaledObject(t, n), served)
			if other := triggers(t, getScaledObject(t, n))[1].(map[string]any)["type"]; other != "cron" {
				t.Errorf("the other trigger's type is %v", other)
			}
			if diff := kubectl("diff"); diff != "" {
				t.Errorf("kubectl diff:\n%s", diff)
			}
			requireOwners(t, getScaledObject(t, n))

			generation := getScaledObject(t, n).GetGeneration()
			git := gitopstest.Start(t, n, gitopstest.Fixed(flags, scaledObject))
			git.AwaitRounds(t, 4)
			git.Stop()
			if now := getScaledObject(t, n); now.GetGeneration() != generation {
				t.Errorf("the generation went from %d to %d", generation, now.GetGeneration())
			}
			requireOwners(t, getScaledObject(t, n))
		})
	}
}

// What people edit is what KEDA gets; a trigger that they write anew is mutated, too.
func TestTriggerIsMutatedInAnEditor(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Kubectl("apply", "-f", writeFile(t, scaledObject))
	edit := func(expression string) {
		e2etest.Shell(t, fmt.Sprintf(`KUBE_EDITOR="sed -i %s" kubectl -n %s edit scaledobject app`, expression, n.Name))
	}
	edit(`s/targetValue:.*/targetValue:\\ \'7\'/`)
	want := map[string]any{"type": "external-push", "name": "requests", "metadata": map[string]any{}}
	for key, value := range served["metadata"].(map[string]any) {
		want["metadata"].(map[string]any)[key] = value
	}
	want["metadata"].(map[string]any)["targetValue"] = "7"
	requireTrigger(t, getScaledObject(t, n), want)
	edit(`-e s/external-push/kedify-http/ -e /scalerAddress/d -e /triggerType/d -e s/targetValue:.*/targetValue:\\ \'5\'/`)
	requireTrigger(t, getScaledObject(t, n), served)
}

// A ScaledObject that is applied while no agent runs is stored as it was written. The agent
// puts it right when it is back, and owns nothing of the triggers.
func TestWebhookAway(t *testing.T) {
	for name, flags := range ways {
		t.Run(name, func(t *testing.T) {
			n := e2etest.NewNamespace(t)
			scaleAgent(t, 0)
			defer scaleAgent(t, 2)
			n.Kubectl(append(flags[:len(flags):len(flags)], "-f", writeFile(t, scaledObject))...)
			requireTrigger(t, getScaledObject(t, n), written)
			scaleAgent(t, 2)
			e2etest.Eventually(t, e2etest.Patience, "the trigger is put right", func(context.Context) error {
				if diff := cmp.Diff(served, triggers(t, getScaledObject(t, n))[0]); diff != "" {
					return fmt.Errorf("(-want +got):\n%s", diff)
				}
				return nil
			})
			requireOwners(t, getScaledObject(t, n))
			if diff := n.Kubectl(append(append([]string{"diff"}, flags[1:]...), "-f", writeFile(t, scaledObject))...); diff != "" {
				t.Errorf("kubectl diff:\n%s", diff)
			}
		})
	}
}

// scaleAgent sets the replicas of the agent, and waits until as many are ready and no other
// pod is there.
func scaleAgent(t *testing.T, replicas int) {
	t.Helper()
	e2etest.Shell(t, fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=%d", keda.Namespace, agent.Deployment, replicas))
	e2etest.Connect(t).AwaitReplicas(t, keda.Namespace, agent.Deployment, replicas)
}

func getScaledObject(t *testing.T, n *e2etest.Namespace) *unstructured.Unstructured {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
	object, err := n.Dynamic.Resource(resource).Namespace(n.Name).Get(context.WithoutCancel(t.Context()), "app", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func triggers(t *testing.T, object *unstructured.Unstructured) []any {
	t.Helper()
	list, found, err := unstructured.NestedSlice(object.Object, "spec", "triggers")
	if !found || err != nil || len(list) == 0 {
		t.Fatalf("no spec.triggers (%v):\n%v", err, object.Object)
	}
	return list
}

func requireTrigger(t *testing.T, object *unstructured.Unstructured, want map[string]any) {
	t.Helper()
	if diff := cmp.Diff(any(want), triggers(t, object)[0]); diff != "" {
		t.Errorf("the first trigger (-want +got):\n%s", diff)
	}
}

// requireOwners demands that the agent owns nothing of a ScaledObject, and that somebody else
// owns the triggers.
func requireOwners(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	owned := false
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == agent.Deployment {
			t.Errorf("the agent owns %s", entry.FieldsV1)
		}
		owned = owned || strings.Contains(string(entry.FieldsV1.Raw), `"f:triggers"`)
	}
	if !owned {
		t.Errorf("nobody owns the triggers: %v", object.GetManagedFields())
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
