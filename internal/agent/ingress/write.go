package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// write changes backends of an Ingress and the record of them in one request, on condition
// that the Ingress is as it was read. It leaves all else alone.
func (r *reconciler) write(ctx context.Context, m *memory, i *networkingv1.Ingress, d *decision) error {
	operations, err := patch(i, d)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(d.changes, change.toProxy) { // the time until which it was left alone is over
		operations = append(operations, annotation(i, agent.LeftAloneAnnotation, "")...)
	}
	if err := send(ctx, r.Client, i, operations); err != nil {
		return err
	}
	r.remember(m, i, d)
	return nil
}

func send(ctx context.Context, c client.Client, i *networkingv1.Ingress, operations []operation) error {
	text, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	return c.Patch(ctx, i.DeepCopy(), client.RawPatch(types.JSONPatchType, text), client.FieldOwner(agent.Name))
}

// patch returns what makes an Ingress as it was decided.
func patch(i *networkingv1.Ingress, d *decision) ([]operation, error) {
	operations := []operation{{"test", "/metadata/resourceVersion", i.ResourceVersion}}
	for _, c := range d.changes {
		operations = append(operations, operation{"replace", fmt.Sprintf("/spec/rules/%d/http/paths/%d/backend/service", c.rule, c.path), c.backend})
	}
	if len(d.record) == 0 {
		return append(operations, annotation(i, agent.WiredPathsAnnotation, "")...), nil
	}
	text, err := d.record.text()
	if err != nil {
		return nil, err
	}
	return append(operations, annotation(i, agent.WiredPathsAnnotation, text)...), nil
}

// annotation returns what sets an annotation, or removes it if the value is empty.
func annotation(i *networkingv1.Ingress, name, value string) []operation {
	at := "/metadata/annotations/" + escape(name)
	_, is := i.Annotations[name]
	switch {
	case value == "" && !is:
		return nil
	case value == "":
		return []operation{{Op: "remove", Path: at}}
	case len(i.Annotations) == 0:
		return []operation{{"add", "/metadata/annotations", map[string]string{name: value}}}
	}
	return []operation{{"add", at, value}}
}

// PutBack points all paths that the agent has pointed at kedify-proxy at their Services again.
// No agent may run meanwhile.
func PutBack(ctx context.Context, c client.Client) error {
	var all networkingv1.IngressList
	if err := c.List(ctx, &all); err != nil {
		return err
	}
	var failed []error
	for n := range all.Items {
		i := &all.Items[n]
		if _, is := i.Annotations[agent.WiredPathsAnnotation]; is {
			if err := putBackOne(ctx, c, i); err != nil {
				failed = append(failed, fmt.Errorf("putting back Ingress %s/%s: %w", i.Namespace, i.Name, err))
			}
		}
	}
	return errors.Join(failed...)
}

func putBackOne(ctx context.Context, c client.Client, i *networkingv1.Ingress) error {
	before, err := recordOf(i)
	if err != nil {
		return err
	}
	var objects httpv1alpha1.HTTPScaledObjectList
	// Without the kind of them, the record says what to put back.
	if err := c.List(ctx, &objects, client.InNamespace(i.Namespace)); err != nil && !meta.IsNoMatchError(err) {
		return err
	}
	// As if no object wanted anything any more.
	for o := range objects.Items {
		objects.Items[o].OwnerReferences = nil
	}
	n := &namespace{objects: objects.Items, rules: order(objects.Items)}
	d := n.decide(i, before, nil)
	operations, err := patch(i, d)
	if err != nil {
		return err
	}
	operations = append(operations, annotation(i, agent.LeftAloneAnnotation, "")...)
	return client.IgnoreNotFound(send(ctx, c, i, operations))
}
