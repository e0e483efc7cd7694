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

// Connect reaches the API server of the sandbox that this process is in, without a
// limit of requests a second. It creates Namespace and the CRDs in the given files,
// unless they exist, and waits until the API server serves the CRDs.
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
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}}
	if err := create(ctx, client, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, namespace); err != nil {
		return nil, nil, err
	}
	for _, crd := range crds {
		if err := serve(ctx, client, crd); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", crd, err)
		}
	}
	return config, client, nil
}

// serve creates the CRD in a file, and waits until the API server serves it.
func serve(ctx context.Context, client dynamic.Interface, crd string) error {
	text, err := os.ReadFile(crd)
	if err != nil {
		return err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, definition); err != nil {
		return err
	}
	if err := create(ctx, client, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, definition); err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		resource := schema.GroupVersionResource{Group: group, Version: fmt.Sprint(version["name"]), Resource: plural}
		if err := Poll(ctx, 20*time.Millisecond, resource.String()+" are served", func() (bool, error) {
			_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// create makes an object of a cluster-wide resource unless it exists.
func create(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, object *unstructured.Unstructured) error {
	_, err := client.Resource(resource).Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
