package gauge

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// Namespace is where the objects of a measurement are.
const Namespace = "bench"

// Connect reaches the API server of the sandbox that this process is in, without
// a limit of requests a second, and has it serve the CRDs in files, that of
// HTTPScaledObjects among them. Namespace is there afterwards.
func Connect(ctx context.Context, crds ...string) (*rest.Config, dynamic.Interface, error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	namespace := []byte(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + Namespace + `}}`)
	if err := create(ctx, client, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, namespace); err != nil {
		return nil, nil, err
	}
	for _, crd := range crds {
		definition, err := os.ReadFile(crd)
		if err != nil {
			return nil, nil, err
		}
		if err := create(ctx, client, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, definition); err != nil {
			return nil, nil, err
		}
	}
	return config, client, Poll(ctx, 20*time.Millisecond, "the CRD is served", func() (bool, error) {
		_, err := client.Resource(cluster.HTTPScaledObjectGVR).Namespace(Namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// create makes an object of a cluster-wide resource unless it is there.
func create(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, text []byte) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, object); err != nil {
		return fmt.Errorf("%s: %w", resource.Resource, err)
	}
	if _, err := client.Resource(resource).Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
