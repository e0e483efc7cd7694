package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// groupSize is how many Rollouts wait at a barrier together. Each group has one
// more Rollout, which the others wait for.
const groupSize = 10

func groupOf(i int) string { return fmt.Sprintf("g%03d", i/groupSize) }

// rolloutTemplate is a Rollout without replicas, so that only Argo Rollouts has
// work to do.
const rolloutTemplate = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: NAME
  namespace: NAMESPACE
  labels: {group: GROUP, app.kubernetes.io/part-of: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers:
        - name: app
          image: registry.example.com/shop/NAME:v1
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {httpGet: {path: /ready, port: http}}
          resources: {requests: {cpu: 100m, memory: 64Mi}}
  strategy:
    canary:
      steps: []
`

// rollout returns a Rollout.
func rollout(namespace, name, group string, steps []v1alpha1.CanaryStep) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	text := strings.NewReplacer("NAMESPACE", namespace, "NAME", name, "GROUP", group).Replace(rolloutTemplate)
	if err := yaml.Unmarshal([]byte(text), object); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(steps)
	if err != nil {
		return nil, err
	}
	var list []any
	if err := json.Unmarshal(encoded, &list); err != nil {
		return nil, err
	}
	return object, unstructured.SetNestedSlice(object.Object, list, "spec", "strategy", "canary", "steps")
}

// rollouts is the Rollouts of a namespace.
type rollouts struct{ dynamic.ResourceInterface }

func (w *world) rolloutsIn(namespace string) rollouts {
	return rollouts{w.client.Resource(v1alpha1.RolloutGVR).Namespace(namespace)}
}

func (r rollouts) create(ctx context.Context, object *unstructured.Unstructured) error {
	_, err := r.Create(ctx, object, metav1.CreateOptions{FieldManager: "bench"})
	return err
}

func (r rollouts) patchSpec(ctx context.Context, name string, spec any) (*unstructured.Unstructured, error) {
	return r.patch(ctx, name, map[string]any{"spec": spec})
}

// patchStatus changes the status of a Rollout as the controller does.
func (r rollouts) patchStatus(ctx context.Context, name string, status any) (*unstructured.Unstructured, error) {
	return r.patch(ctx, name, map[string]any{"status": status}, "status")
}

func (r rollouts) patch(ctx context.Context, name string, change map[string]any, subresource ...string) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	return r.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "bench"}, subresource...)
}

// pluginStep is a step of a plugin.
func pluginStep(name string, config json.RawMessage) v1alpha1.CanaryStep {
	return v1alpha1.CanaryStep{Plugin: &v1alpha1.PluginStep{Name: name, Config: config}}
}

// pause is a step that waits for a person.
func pause() v1alpha1.CanaryStep { return v1alpha1.CanaryStep{Pause: &v1alpha1.RolloutPause{}} }
