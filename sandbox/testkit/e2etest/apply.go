package e2etest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// applyPatience bounds the wait for a kind that has only just been defined.
const applyPatience = 20 * time.Second

// Apply applies the objects of a YAML stream, server-side. Objects of namespaced
// kinds that name no namespace go into this one.
func (n *Namespace) Apply(manifest string) {
	n.t.Helper()
	objects, err := Decode(manifest)
	if err != nil {
		n.t.Fatalf("manifest: %v\n%s", err, manifest)
	}
	for _, object := range objects {
		what := fmt.Sprintf("applying %s %s", object.GetKind(), object.GetName())
		Eventually(n.t, applyPatience, what, func(ctx context.Context) error {
			client, err := n.resource(object)
			if err != nil {
				return err
			}
			_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
			return err
		})
	}
}

// TryApply applies the objects of a YAML stream once, from any goroutine: it
// returns the error.
func (n *Namespace) TryApply(ctx context.Context, manifest string) error {
	objects, err := Decode(manifest)
	if err != nil {
		return err
	}
	for _, object := range objects {
		client, err := n.resource(object)
		if err == nil {
			_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
		}
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Delete deletes the objects of a YAML stream; an object that does not exist fails
// the test.
func (n *Namespace) Delete(manifest string) {
	n.t.Helper()
	objects, err := Decode(manifest)
	if err != nil {
		n.t.Fatalf("manifest: %v\n%s", err, manifest)
	}
	for _, object := range objects {
		client, err := n.resource(object)
		if err == nil {
			err = client.Delete(n.t.Context(), object.GetName(), metav1.DeleteOptions{})
		}
		if err != nil {
			n.t.Fatalf("deleting %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// Decode reads the objects of a YAML stream.
func Decode(manifest string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("document %d: %w", len(objects)+1, err)
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// resource returns the client for an object's kind and namespace.
func (n *Namespace) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := n.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		if meta.IsNoMatchError(err) {
			n.mapper.Reset()
		}
		return nil, err
	}
	client := n.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client, nil
	}
	namespace := n.Name
	if own := object.GetNamespace(); own != "" {
		namespace = own
	}
	return client.Namespace(namespace), nil
}
