package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

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

// makeScaledObjects makes the ScaledObjects, with triggers as the webhook leaves them, and the
// ConfigMap that the agent reads.
func (w *world) makeScaledObjects(ctx context.Context) error {
	configMap, err := gauge.ReadObject(w.configMap)
	if err != nil {
		return err
	}
	if err := w.Create(ctx, configMap); err != nil {
		return err
	}
	gauge.Say("making %d ScaledObjects", objects)
	return gauge.Each(makers, objects, func(i int) error {
		return w.Create(ctx, gauge.Object(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicaCount: 1
  maxReplicaCount: 10
  triggers:
    - type: external-push
      metadata:
        scalerAddress: keda-add-ons-http-external-scaler.keda:9090
        triggerType: kedify-http
        hosts: %[1]s.example.com
        pathPrefixes: /
        service: %[1]s
        port: "8080"
        scalingMetric: requestRate
        targetValue: "10"`, fmt.Sprintf("app-%05d", i)))
	})
}

func (w *world) httpScaledObjects(namespace string) dynamic.ResourceInterface {
	return w.Resource(cluster.HTTPScaledObjectGVR).Namespace(namespace)
}

// made returns how many HTTPScaledObjects there are.
func (w *world) made(ctx context.Context) (int, error) {
	list, err := w.httpScaledObjects(gauge.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
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
// after the other, without the finalizer that would keep them there. It returns how long that
// took, and deletes them: the next agent is to have no more than the first.
func (w *world) applyAll(ctx context.Context) (time.Duration, error) {
	if err := w.Create(ctx, gauge.Object("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", loopNamespace)); err != nil {
		return 0, err
	}
	list, err := w.httpScaledObjects(gauge.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, o := range list.Items {
		o.SetNamespace(loopNamespace)
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "finalizers"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(o.Object, "status")
	}
	there := w.httpScaledObjects(loopNamespace)
	began := time.Now()
	for i := range list.Items {
		if _, err := there.Apply(ctx, list.Items[i].GetName(), &list.Items[i], metav1.ApplyOptions{FieldManager: "loop", Force: true}); err != nil {
			return 0, err
		}
	}
	took := time.Since(began)
	return took, there.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}
