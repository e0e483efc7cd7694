package main

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

const (
	// objects is how many ScaledObjects there are.
	objects = 10_000
	// makers is how many are made at once.
	makers = 24
	// loopNamespace is where the loop applies the HTTPScaledObjects that the agent has made.
	loopNamespace = "loop"
)

var (
	configMaps    = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	scaledObjects = schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
)

func name(i int) string { return fmt.Sprintf("app-%05d", i) }

// makeScaledObjects makes the ScaledObjects, with triggers as the webhook leaves them, and the
// ConfigMap that the agent reads.
func (w *world) makeScaledObjects(ctx context.Context) error {
	text, err := os.ReadFile(w.configMap)
	if err != nil {
		return err
	}
	configMap := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, configMap); err != nil {
		return err
	}
	if _, err := w.client.Resource(configMaps).Namespace(gauge.Namespace).Create(ctx, configMap, metav1.CreateOptions{}); err != nil {
		return err
	}
	gauge.Say("making %d ScaledObjects", objects)
	return gauge.Each(makers, 0, objects, func(i int) error {
		_, err := w.client.Resource(scaledObjects).Namespace(gauge.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
			"metadata": map[string]any{"name": name(i), "labels": map[string]any{"app": name(i)}},
			"spec": map[string]any{
				"scaleTargetRef":  map[string]any{"name": name(i)},
				"minReplicaCount": int64(1), "maxReplicaCount": int64(10),
				"triggers": []any{map[string]any{"type": "external-push", "metadata": map[string]any{
					"scalerAddress": "keda-add-ons-http-external-scaler.keda:9090", "triggerType": "kedify-http",
					"hosts": name(i) + ".example.com", "pathPrefixes": "/", "service": name(i), "port": "8080",
					"scalingMetric": "requestRate", "targetValue": "10",
				}}},
			},
		}}, metav1.CreateOptions{})
		return err
	})
}

// made returns how many HTTPScaledObjects a namespace has.
func (w *world) made(ctx context.Context, namespace string) (int, error) {
	list, err := w.client.Resource(cluster.HTTPScaledObjectGVR).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := len(list.Items)
	if rest := list.GetRemainingItemCount(); rest != nil {
		n += int(*rest)
	}
	return n, nil
}

// applyAll applies the HTTPScaledObjects that the agent has made to another namespace, one
// after the other.
func (w *world) applyAll(ctx context.Context, manifests []unstructured.Unstructured) error {
	for i := range manifests {
		_, err := w.client.Resource(cluster.HTTPScaledObjectGVR).Namespace(loopNamespace).Apply(ctx, manifests[i].GetName(), &manifests[i],
			metav1.ApplyOptions{FieldManager: "loop", Force: true})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes what applyAll has made: the next agent is to have no more than the first.
func (w *world) deleteAll(ctx context.Context) error {
	return gauge.Each(makers, 0, objects, func(i int) error {
		return w.client.Resource(cluster.HTTPScaledObjectGVR).Namespace(loopNamespace).Delete(ctx, name(i), metav1.DeleteOptions{})
	})
}

// manifests returns the HTTPScaledObjects that the agent has made, as they would be applied to
// loopNamespace, without the finalizer that would keep them there.
func (w *world) manifests(ctx context.Context) ([]unstructured.Unstructured, error) {
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": loopNamespace},
	}}
	if _, err := w.client.Resource(namespaces).Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	list, err := w.client.Resource(cluster.HTTPScaledObjectGVR).Namespace(gauge.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		o.SetNamespace(loopNamespace)
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "finalizers"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(o.Object, "status")
	}
	return list.Items, nil
}
