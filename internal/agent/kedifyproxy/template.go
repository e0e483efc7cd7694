package kedifyproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/manifest"
)

// adminService is the Service for a look at Envoy.
const adminService = agent.ProxyService + "-admin"

const (
	// appliedAnnotation has the hashes of what the agent last applied to an object, and of the
	// fields that it has owned since. With it the next agent knows, too.
	appliedAnnotation = "http.kedify.io/applied"
	// bootstrapAnnotation is on the pods. It makes them new ones when the ConfigMap changes
	// that they read only as they start.
	bootstrapAnnotation = "http.kedify.io/bootstrap"
)

// part names an object that a kedify-proxy may consist of, in any namespace.
type part struct {
	schema.GroupVersionKind
	name string
}

func (p part) String() string { return p.Kind + " " + p.name }

var (
	configMap  = part{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, agent.ProxyService}
	service    = part{schema.GroupVersionKind{Version: "v1", Kind: "Service"}, agent.ProxyService}
	deployment = part{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, agent.ProxyService}
)

// parts are those of deploy/kedify-proxy, in the order in which they are applied: pods find
// what they need. They are deleted in the opposite order.
var parts = []part{
	{schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, agent.ProxyService},
	configMap,
	{schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}, agent.ProxyService},
	{schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, agent.ProxyService},
	{service.GroupVersionKind, adminService},
	service,
	deployment,
}

// template is what each namespace gets.
type template map[part]*unstructured.Unstructured

// parse reads the data of the ConfigMap with the manifests of kedify-proxy.
func parse(data map[string]string) (template, error) {
	t := template{}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		for _, document := range manifest.Documents([]byte(data[key])) {
			where := fmt.Sprintf("data[%q], document %d", key, document.Number)
			if document.Err != nil {
				return nil, fmt.Errorf("%s: expected a manifest in YAML: %w", where, document.Err)
			}
			for _, text := range document.Objects {
				if err := t.add(text); err != nil {
					return nil, fmt.Errorf("%s: %w", where, err)
				}
			}
		}
	}
	for _, p := range []part{service, deployment} {
		if t[p] == nil {
			return nil, fmt.Errorf("data has no %s: start from deploy/kedify-proxy", p)
		}
	}
	return t, t.finish()
}

// add adds an object of a manifest; one that only has comments is none.
func (t template) add(text json.RawMessage) error {
	if string(text) == "null" {
		return nil
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return fmt.Errorf("expected a manifest with apiVersion and kind: %w", err)
	}
	p := part{object.GroupVersionKind(), object.GetName()}
	if !slices.Contains(parts, p) {
		return fmt.Errorf("%s %s of %s is not a part of kedify-proxy: expected %s; put it into the namespaces yourself",
			p.Kind, p.name, object.GetAPIVersion(), names())
	}
	if t[p] != nil {
		return fmt.Errorf("%s is there twice: leave one", p)
	}
	t[p] = object
	return nil
}

// names lists the parts for people.
func names() (text string) {
	for i, p := range parts {
		if i > 0 {
			text += ", "
		}
		text += p.String() + " of " + p.GroupVersion().String()
	}
	return text
}

// finish adds what marks the objects as the agent's.
func (t template) finish() error {
	if t[configMap] != nil {
		at := []string{"spec", "template", "metadata", "annotations", bootstrapAnnotation}
		if err := unstructured.SetNestedField(t[deployment].Object, hash(t[configMap].Object), at...); err != nil {
			return fmt.Errorf("%s: %w", deployment, err)
		}
	}
	for p, object := range t {
		if err := unstructured.SetNestedField(object.Object, agent.Name, "metadata", "labels", agent.ManagedByLabel); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		object.SetNamespace("") // each namespace has its own
	}
	return nil
}

// wanted returns an object of the template for a namespace, with its hash in
// appliedAnnotation; nil if it has none. What somebody scales keeps its number of replicas.
func (t template) wanted(p part, namespace string, scaled bool) *unstructured.Unstructured {
	if t[p] == nil {
		return nil
	}
	object := t[p].DeepCopy()
	if scaled {
		unstructured.RemoveNestedField(object.Object, "spec", "replicas")
	}
	setApplied(object, hash(object.Object))
	object.SetNamespace(namespace)
	return object
}

func setApplied(object *unstructured.Unstructured, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[appliedAnnotation] = value
	object.SetAnnotations(annotations)
}

// hash returns a hash of what was read from JSON.
func hash(object map[string]any) string {
	text, _ := json.Marshal(object) // in the order of the keys
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
