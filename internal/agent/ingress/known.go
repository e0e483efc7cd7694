package ingress

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

// An Ingress controller may send requests to a backend before its proxies know it, or take
// one away that they still use: Contour has lost 636 of 20,834 requests in 20 switches (503,
// no cluster), and none in 44 while another Ingress had both backends. So there is an Ingress
// of the agent's own, for hosts that nobody asks for, while one of a user's has paths that
// are wired.

const (
	// settled is for how long a controller has to have seen backends before they are used.
	// None says when its proxies have them.
	settled = 2 * time.Second
	// keptKnown is for how long backends are kept after they were used.
	keptKnown = 10 * time.Second
	// knownDomain is where hosts of these Ingresses are; .invalid is never resolved (RFC 2606).
	knownDomain = "kedify-agent.invalid"
	// classAnnotation is how Ingresses named their class before they had a field for it.
	classAnnotation = "kubernetes.io/ingress.class"
)

// isOwn tells whether an Ingress is one of the agent's own.
func isOwn(i *networkingv1.Ingress) bool {
	return i.Labels[agent.ManagedByLabel] == agent.Name && metav1.GetControllerOf(i) != nil
}

// classOf returns the class of an Ingress.
func classOf(i *networkingv1.Ingress) string {
	if i.Spec.IngressClassName != nil {
		return *i.Spec.IngressClassName
	}
	return i.Annotations[classAnnotation]
}

// backends returns those that an Ingress's wired paths have and have had, and that its changed
// paths get, in a fixed order. There are none without wired paths.
func backends(before record, d *decision) []networkingv1.IngressServiceBackend {
	if len(before) == 0 && len(d.record) == 0 {
		return nil
	}
	all := map[networkingv1.IngressServiceBackend]bool{*proxy(): true}
	for _, w := range slices.Concat(before, d.record) {
		all[networkingv1.IngressServiceBackend{Name: w.Service, Port: w.Port}] = true
	}
	for _, c := range d.changes {
		all[*c.backend] = true
	}
	for _, b := range d.later {
		all[*b] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b networkingv1.IngressServiceBackend) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

// ownFor returns the Ingress that makes backends known to the controller of a user's.
func ownFor(i *networkingv1.Ingress, backends []networkingv1.IngressServiceBackend) *networkingv1.Ingress {
	isController, blocks := true, false
	own := &networkingv1.Ingress{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: i.Namespace, Name: agent.Name + "-" + string(i.UID),
			Labels: map[string]string{agent.ManagedByLabel: agent.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress", Name: i.Name, UID: i.UID,
				Controller: &isController, BlockOwnerDeletion: &blocks,
			}},
		},
		Spec: networkingv1.IngressSpec{IngressClassName: i.Spec.IngressClassName},
	}
	if class, is := i.Annotations[classAnnotation]; is && i.Spec.IngressClassName == nil {
		own.Annotations = map[string]string{classAnnotation: class}
	}
	// The path is nobody's, so that no more of a Service can be reached than before.
	exact := networkingv1.PathTypeExact
	for n := range backends {
		// A host each: some controllers take the first path of a host alone.
		own.Spec.Rules = append(own.Spec.Rules, networkingv1.IngressRule{
			Host: fmt.Sprintf("%d.%s.%s", n, i.UID, knownDomain),
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/" + string(i.UID), PathType: &exact, Backend: networkingv1.IngressBackend{Service: &backends[n]}}},
			}},
		})
	}
	return own
}

// makeKnown makes the backends of an Ingress known to its controller, or forgets them once
// they are not used any more. It returns how long they are not to be used yet, or forgotten.
func (r *reconciler) makeKnown(ctx context.Context, m *memory, i, own *networkingv1.Ingress, wanted []networkingv1.IngressServiceBackend) (time.Duration, error) {
	if len(wanted) == 0 {
		if own == nil {
			return 0, nil
		}
		if left := keptKnown - m.seenFor(own, "unused", r.now()); left > 0 {
			return left, nil
		}
		return 0, client.IgnoreNotFound(r.Delete(ctx, own.DeepCopy(), client.Preconditions{UID: &own.UID}))
	}
	want := ownFor(i, wanted)
	if own == nil || !isAs(own, want) {
		if err := r.Patch(ctx, want, client.Apply, client.FieldOwner(agent.Name), client.ForceOwnership); err != nil {
			return 0, err
		}
		// Without a new version it is what the API server makes of it: an admission webhook
		// may not let it be as wanted.
		if own == nil || own.ResourceVersion != want.ResourceVersion {
			return settled, nil
		}
	}
	return settled - m.seenFor(own, fmt.Sprint(own.Generation), r.now()), nil
}

// isAs tells whether an Ingress of the agent's own is as wanted. The API server may give it a
// class, and others annotations.
func isAs(own, want *networkingv1.Ingress) bool {
	return equality.Semantic.DeepEqual(own.Spec.Rules, want.Spec.Rules) && (classOf(want) == "" || classOf(own) == classOf(want))
}

// RemoveOwn deletes the Ingresses of the agent's own: for when PutBack is some seconds ago.
func RemoveOwn(ctx context.Context, c client.Client) error {
	var all networkingv1.IngressList
	if err := c.List(ctx, &all, client.MatchingLabels{agent.ManagedByLabel: agent.Name}); err != nil {
		return err
	}
	for n := range all.Items {
		if i := &all.Items[n]; isOwn(i) {
			if err := client.IgnoreNotFound(c.Delete(ctx, i)); err != nil {
				return fmt.Errorf("deleting Ingress %s/%s: %w", i.Namespace, i.Name, err)
			}
		}
	}
	return nil
}
