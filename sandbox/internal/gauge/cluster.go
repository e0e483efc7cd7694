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
// a limit of requests a second, and has it serve HTTPScaledObjects by the CRD in
// a file. Namespace is there afterwards.
func Connect(ctx context.Context, crd string) (*rest.Config, dynamic.Interface, error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	definition, err := os.ReadFile(crd)
	if err != nil {
		return nil, nil, err
	}
	for resource, text := range map[schema.GroupVersionResource][]byte{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: definition,
		{Version: "v1", Resource: "namespaces"}:                                               []byte(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + Namespace + `}}`),
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, object); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", resource.Resource, err)
		}
		if _, err := client.Resource(resource).Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
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
