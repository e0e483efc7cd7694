package addon

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Namespace returns a Namespace.
func Namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}

// RestrictedNamespace returns a Namespace that admits only pods that any cluster admits:
// those of the restricted Pod Security Standard.
func RestrictedNamespace(name string) *unstructured.Unstructured {
	namespace := Namespace(name)
	namespace.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	return namespace
}

// AddArguments adds arguments to the only container of the Deployment of that name among
// objects.
func AddArguments(objects []*unstructured.Unstructured, deployment string, arguments ...string) error {
	for _, o := range objects {
		if o.GetKind() != "Deployment" || o.GetName() != deployment {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if len(containers) != 1 {
			return fmt.Errorf("Deployment %s has %d containers; expected one, for %v", deployment, len(containers), arguments)
		}
		container, _ := containers[0].(map[string]any)
		before, _, _ := unstructured.NestedStringSlice(container, "args")
		if err := unstructured.SetNestedStringSlice(container, append(before, arguments...), "args"); err != nil {
			return err
		}
		return unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	}
	return fmt.Errorf("there is no Deployment %s for the arguments %v", deployment, arguments)
}
