package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// groupSize is how many Rollouts wait at a barrier together. Each group has one
// more Rollout, which the others wait for.
const groupSize = 10

func groupOf(i int) string { return fmt.Sprintf("g%03d", i/groupSize) }

// rollout returns a Rollout without replicas, so that only Argo Rollouts has work to do. Its
// steps are as in YAML.
func rollout(namespace, name, group, steps string) *unstructured.Unstructured {
	return gauge.Object(`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: %[2]s, namespace: %[1]s, labels: {group: %[3]s, app.kubernetes.io/part-of: shop}}
spec:
  replicas: 0
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      containers:
        - name: app
          image: registry.example.com/shop/%[2]s:v1
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {httpGet: {path: /ready, port: http}}
          resources: {requests: {cpu: 100m, memory: 64Mi}}
  strategy: {canary: {steps: %[4]s}}`, namespace, name, group, steps)
}

// preset returns a preset of a step.
func preset(name, text string) *unstructured.Unstructured {
	return gauge.Object(`
apiVersion: v1
kind: ConfigMap
metadata: {name: %s, labels: {rollouts.kedify.io/step-preset: "true"}}
data: {preset.yaml: %q}`, name, text)
}

func namespace(name string) *unstructured.Unstructured {
	return gauge.Object("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)
}

func typed(object *unstructured.Unstructured) (*v1alpha1.Rollout, error) {
	ro := &v1alpha1.Rollout{}
	return ro, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, ro)
}

// rollouts is the Rollouts of a namespace.
type rollouts struct{ dynamic.ResourceInterface }

func (w *world) rolloutsIn(namespace string) rollouts {
	return rollouts{w.Resource(v1alpha1.RolloutGVR).Namespace(namespace)}
}

// patchStatus changes the status of a Rollout as the controller does.
func (r rollouts) patchStatus(ctx context.Context, name string, status any) (*v1alpha1.Rollout, error) {
	return r.patch(ctx, name, map[string]any{"status": status}, "status")
}

func (r rollouts) patch(ctx context.Context, name string, change any, subresource ...string) (*v1alpha1.Rollout, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	patched, err := r.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "bench"}, subresource...)
	if err != nil {
		return nil, err
	}
	return typed(patched)
}

// await waits until something is true of a Rollout, and watches it, so that it is seen at once.
func (r rollouts) await(ctx context.Context, name, what string, wanted func(*v1alpha1.Rollout) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	last := &v1alpha1.Rollout{}
	for {
		seen, err := r.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			text, _ := json.Marshal(last.Status)
			return fmt.Errorf("waiting until Rollout %s: %s: %w; its status is %s", name, what, err, text)
		}
		for event := range seen.ResultChan() {
			object, is := event.Object.(*unstructured.Unstructured)
			if !is {
				break // the API server is behind, or ends the watch
			}
			if last, err = typed(object); err != nil || wanted(last) {
				seen.Stop()
				return err
			}
		}
		seen.Stop()
	}
}
