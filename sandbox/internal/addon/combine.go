package addon

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Combine adds the manifests of an add-on to those of the add-ons before it. All of them
// are applied at the same time, so each object may be there once only:
//
//   - Definitions of the API groups in defined, which are another add-on's to define, are
//     left out.
//   - Of a Namespace that several bring there is one, with the labels of all.
//   - Two other objects of one kind and name are an error.
func Combine(before, own []Manifests, defined []string) ([]Manifests, error) {
	all := slices.Clone(before)
	for _, m := range own {
		all = append(all, Manifests{Namespace: m.Namespace})
		added := &all[len(all)-1]
		for _, o := range m.Objects {
			if o.GetKind() == "CustomResourceDefinition" && slices.Contains(defined, group(o)) {
				continue
			}
			kind := o.GroupVersionKind().GroupKind()
			same := find(all, m.namespaceOf(o), o.GetName(), func(other *unstructured.Unstructured) bool {
				return other.GroupVersionKind().GroupKind() == kind
			})
			switch {
			case same == nil:
				added.Objects = append(added.Objects, o)
			case o.GetKind() == "Namespace":
				labels := map[string]string{}
				maps.Copy(labels, o.GetLabels())
				maps.Copy(labels, same.GetLabels())
				same.SetLabels(labels)
			default:
				return nil, fmt.Errorf("another add-on brings %s %s, too: leave one of them out of --with; of definitions, name their group in Addon.Defines of the add-on that they are to come from",
					o.GetKind(), o.GetName())
			}
		}
	}
	return all, nil
}

// group is the API group that a definition is about.
func group(definition *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	return name
}

// find returns the object in a namespace, which is empty for objects that are in none.
func find(all []Manifests, namespace, name string, is func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	for _, m := range all {
		for _, o := range m.Objects {
			if o.GetName() == name && m.namespaceOf(o) == namespace && is(o) {
				return o
			}
		}
	}
	return nil
}

// namespaceOf is the namespace that an object says, or else the one of its manifests. It
// is empty for kinds that are in no namespace and that add-ons may share.
func (m Manifests) namespaceOf(o *unstructured.Unstructured) string {
	switch o.GetKind() {
	case "Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "APIService":
		return ""
	}
	if namespace := o.GetNamespace(); namespace != "" {
		return namespace
	}
	return m.Namespace
}
