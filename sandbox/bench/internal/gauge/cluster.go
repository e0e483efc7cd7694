package gauge

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// Namespace is where the objects of a measurement are.
const Namespace = "bench"

// Cluster is the API server of the sandbox that this process is in, without a limit of
// requests a second.
type Cluster struct {
	dynamic.Interface
	Config *rest.Config
}

// Connect reaches the API server. It makes Namespace and the CRDs in the given files, unless
// they exist, and waits until the API server serves the CRDs.
func Connect(ctx context.Context, crds ...string) (*Cluster, error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{client, config}
	if err := c.Create(ctx, Object("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", Namespace)); err != nil {
		return nil, err
	}
	for _, crd := range crds {
		if err := c.serve(ctx, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", crd, err)
		}
	}
	return c, nil
}

// serve makes the CRD in a file, and waits until the API server serves it.
func (c *Cluster) serve(ctx context.Context, crd string) error {
	definition, err := ReadObject(crd)
	if err != nil {
		return err
	}
	if err := c.Create(ctx, definition); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		version, _ := version.(map[string]any)
		if version["served"] != true {
			continue
		}
		resource := schema.GroupVersionResource{Group: group, Version: fmt.Sprint(version["name"]), Resource: plural}
		if err := Poll(ctx, 20*time.Millisecond, resource.String()+" are served", func() (bool, error) {
			_, err := c.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
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

// Object returns the object of a manifest that is part of a program. It panics if it cannot
// be read.
func Object(format string, args ...any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSON(fmt.Appendf(nil, format, args...))
	if err == nil {
		err = o.UnmarshalJSON(text) // whole numbers become int64
	}
	if err != nil {
		panic(err)
	}
	return o
}

// ReadObject returns the object of a manifest in a file.
func ReadObject(path string) (*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	return o, yaml.Unmarshal(text, o)
}

// For returns the client of an object's resource, in the object's namespace, which is
// Namespace if it names none.
func (c *Cluster) For(o *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	switch o.GetKind() {
	case "Namespace", "CustomResourceDefinition":
		return c.Resource(resource)
	}
	return c.Resource(resource).Namespace(cmp.Or(o.GetNamespace(), Namespace))
}

// Create makes objects.
func (c *Cluster) Create(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		if _, err := c.For(o).Create(ctx, o, metav1.CreateOptions{FieldManager: "bench"}); err != nil {
			return err
		}
	}
	return nil
}

// Requests returns how many requests the API server has answered, by its own count, of those
// whose labels are counted.
func (c *Cluster) Requests(ctx context.Context, counted func(labels string) bool) (int, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return 0, err
	}
	page, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	n, err := Metric(string(page), "apiserver_request_total", counted)
	return int(n), err
}

// Stop stops components of the sandbox.
func Stop(ctx context.Context, components ...string) error {
	for _, component := range components {
		if err := cluster.Component(ctx, "stop", component); err != nil {
			return err
		}
	}
	return nil
}
