package gatewayapi

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// ReferenceGrant is the part of a ReferenceGrant that says what it allows; it is the same in
// v1beta1 and v1.
type ReferenceGrant struct {
	Spec struct {
		From []struct {
			Group     string `json:"group"`
			Kind      string `json:"kind"`
			Namespace string `json:"namespace"`
		} `json:"from"`
		To []struct {
			Group string `json:"group"`
			Kind  string `json:"kind"`
			// Name is empty for all objects of the kind.
			Name string `json:"name,omitempty"`
		} `json:"to"`
	} `json:"spec"`
}

// Grants tells whether the grant, in the namespace of a backend, lets a route refer to it.
func (g ReferenceGrant) Grants(route *unstructured.Unstructured, b Backend) bool {
	from, to := false, false
	for _, f := range g.Spec.From {
		from = from || f.Group == Group && f.Kind == route.GetKind() && f.Namespace == route.GetNamespace()
	}
	for _, t := range g.Spec.To {
		to = to || t.Group == b.Group && t.Kind == b.Kind && (t.Name == "" || t.Name == b.Name)
	}
	return from && to
}

// ownFaults returns why a gateway may not be able to send requests to all backends of the
// rules that have one of a Rollout's Services: a Service, a port or a ReferenceGrant is
// missing, or the gateway, which does not know some protocol, may not know theirs. What
// cannot be read counts as a fault.
func (b *backend) ownFaults(ctx context.Context, route *unstructured.Unstructured, ro Rollout, before []refusal) []string {
	ctx, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	protocols := slices.ContainsFunc(before, func(r refusal) bool { return r.Reason == "UnsupportedProtocol" })
	var faults []string
	for _, to := range ownBackends(route, ro) {
		faults = append(faults, b.portFaults(ctx, to, protocols)...)
		if to.Namespace != route.GetNamespace() {
			faults = append(faults, b.grantFaults(ctx, route, to)...)
		}
	}
	slices.Sort(faults)
	return slices.Compact(faults) // several ports of one Service
}

// ownBackends are the Services, each with its port, of the rules of a route that have one of
// a Rollout's Services.
func ownBackends(route *unstructured.Unstructured, ro Rollout) []Backend {
	var own []Backend
	spec, _ := route.Object["spec"].(map[string]any)
	for _, rule := range objects(spec["rules"]) {
		var backends []Backend
		ours := false
		for _, ref := range objects(rule["backendRefs"]) {
			b := backendOf(ref, route.GetNamespace())
			ours = ours || b.isService(service{ro.Namespace, ro.Stable}) || b.isService(service{ro.Namespace, ro.Canary})
			if b.Group == "" && b.Kind == "Service" && !slices.Contains(own, b) {
				backends = append(backends, b)
			}
		}
		if ours {
			own = append(own, backends...)
		}
	}
	return own
}

// portFaults returns what is wrong with a Service and port; with protocols also if it names
// a protocol.
func (b *backend) portFaults(ctx context.Context, to Backend, protocols bool) []string {
	what := fmt.Sprintf("Service %s/%s", to.Namespace, to.Name)
	var found corev1.Service
	err := b.whole.Get(ctx, corev1.SchemeGroupVersion.WithResource("services"), to.Namespace, to.Name, &found)
	if apierrors.IsNotFound(err) {
		return []string{what + " does not exist"}
	}
	if err != nil {
		return []string{b.unreadable("get", what, "services", err).Error()}
	}
	i := slices.IndexFunc(found.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == to.Port })
	switch {
	case i < 0:
		return []string{fmt.Sprintf("%s has no port %d, to which the route refers", what, to.Port)}
	case protocols && found.Spec.Ports[i].AppProtocol != nil:
		return []string{fmt.Sprintf("port %d of %s has appProtocol %s", to.Port, what, *found.Spec.Ports[i].AppProtocol)}
	}
	return nil
}

// grantFaults returns why a route may not refer to a backend in another namespace. Each
// served version has all ReferenceGrants.
func (b *backend) grantFaults(ctx context.Context, route *unstructured.Unstructured, to Backend) []string {
	var grants struct {
		Items []ReferenceGrant `json:"items"`
	}
	var err error
	for _, version := range []string{"v1beta1", "v1"} { // releases before v1.5 serve the first alone
		resource := schema.GroupVersionResource{Group: Group, Version: version, Resource: "referencegrants"}
		if err = b.whole.List(ctx, resource, to.Namespace, kube.Selection{}, &grants); !apierrors.IsNotFound(err) {
			break
		}
	}
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return []string{b.unreadable("list", "ReferenceGrants of namespace "+to.Namespace, "referencegrants."+Group, err).Error()}
	case slices.ContainsFunc(grants.Items, func(g ReferenceGrant) bool { return g.Grants(route, to) }):
		return nil
	}
	return []string{fmt.Sprintf("no ReferenceGrant in namespace %s lets %s of namespace %s refer to Service %s", to.Namespace, route.GetKind(), route.GetNamespace(), to.Name)}
}

func (b *backend) unreadable(verb, what, resource string, err error) error {
	return rolloutsplugin.Request{
		Verb: verb, Object: what, Resource: resource,
		Kept: "the route", Role: "argo-rollouts-gatewayapi", Manifests: "deploy/gatewayapi", Timeout: reportWait,
	}.Failed(err)
}
