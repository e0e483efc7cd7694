package steps

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// workflowCRD is the definition of Argo Workflows, as its minimal manifests have it: what is
// in a workflow is judged by its controller. There is no subresource status.
const workflowCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: workflows.argoproj.io
spec:
  group: argoproj.io
  names: {kind: Workflow, listKind: WorkflowList, plural: workflows, singular: workflow, shortNames: [wf]}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [metadata, spec]
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// workflows is a stand-in for the controller of Argo Workflows in a namespace that has the
// WorkflowTemplate e2e.
type workflows struct {
	t *testing.T
	n *e2etest.Namespace
}

var workflowResource = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows"}

func (w workflows) list(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := w.n.Dynamic.Resource(workflowResource).Namespace(w.n.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// begin waits for a workflow that has not begun, has it run, and returns it. The test fails
// if the controller would not take it.
func (w workflows) begin(image string) *unstructured.Unstructured {
	w.t.Helper()
	var found *unstructured.Unstructured
	e2etest.Eventually(w.t, e2etest.Patience, "a workflow that has not begun", func(ctx context.Context) error {
		all, err := w.list(ctx)
		for _, one := range all {
			if one.Object["status"] == nil {
				found = &one
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("%d workflows have begun", len(all)))
	})
	parameter := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	want := map[string]any{
		"workflowTemplateRef":   map[string]any{"name": "e2e"},
		"arguments":             map[string]any{"parameters": []any{parameter("image", image), parameter("namespace", w.n.Name)}},
		"activeDeadlineSeconds": int64(450),
		"ttlStrategy":           map[string]any{"secondsAfterCompletion": int64(3600)},
	}
	if diff := cmp.Diff(want, found.Object["spec"]); diff != "" {
		w.t.Errorf("the workflow's spec (-want +got):\n%s", diff)
	}
	w.set(found, `{"phase": "Running", "progress": "0/1"}`)
	return found
}

// set sets the status of a workflow.
func (w workflows) set(one *unstructured.Unstructured, status string) {
	w.t.Helper()
	_, err := w.n.Dynamic.Resource(workflowResource).Namespace(w.n.Name).
		Patch(w.t.Context(), one.GetName(), types.MergePatchType, []byte(`{"status": `+status+`}`), metav1.PatchOptions{FieldManager: "workflow-controller"})
	if err != nil {
		w.t.Fatalf("Workflow %s: %v", one.GetName(), err)
	}
}

// The sample of an Argo Workflow: a workflow that succeeds lets the canary go on, one that
// fails aborts it with its message, and an abort deletes one that runs.
func TestArgoWorkflowSample(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(workflowCRD)
	w := workflows{t, n}
	name := startSample(t, n, sample(t, "argo-workflow.yaml", "", ""), "")
	running := func(one *unstructured.Unstructured) {
		t.Helper()
		n.AwaitStep(name, 1, v1alpha1.StepPluginPhaseRunning, one.GetName())
	}

	first := w.begin(e2etest.Image("yellow"))
	running(first)
	n.Abort(name)
	n.AwaitAborted(name)
	e2etest.Eventually(t, e2etest.Patience, "the workflow is deleted", func(ctx context.Context) error {
		all, err := w.list(ctx)
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("there are %d", len(all))
		}
		return err
	})

	n.Retry(name)
	second := w.begin(e2etest.Image("yellow"))
	running(second)
	w.set(second, `{"phase": "Succeeded", "progress": "1/1"}`)
	n.AwaitHealthy(name, e2etest.Image("yellow"))

	n.SetImage(name, e2etest.Image("green"))
	w.set(w.begin(e2etest.Image("green")), `{"phase": "Failed", "message": "child 'e2e-1' failed"}`)
	n.AwaitAborted(name)
	n.AwaitStep(name, 1, v1alpha1.StepPluginPhaseFailed, "child 'e2e-1' failed")
}
