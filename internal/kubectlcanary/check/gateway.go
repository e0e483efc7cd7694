package check

import (
	"context"
	"slices"
	"sync"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

// gatewaySnapshot is what Rollouts with a router for the Gateway API need of the
// cluster.
type gatewaySnapshot struct {
	// routes are all routes of a kind in a namespace. For a kind that the cluster does
	// not serve there is an error, and its kindMissing is true.
	routes map[routesAt]read[[]unstructured.Unstructured]
	// gateways are those that the routes name.
	gateways map[types.NamespacedName]read[gatewayObject]
	// grants are the ReferenceGrants of the namespaces to which routes of other
	// namespaces refer.
	grants map[string]read[[]gatewayapi.ReferenceGrant]
	argoCD argoCDSnapshot
}

// routesAt are the routes of a kind in a namespace.
type routesAt struct {
	kind      gatewayapi.Kind
	namespace string
}

// gatewayObject is the part of a Gateway that the checks read.
type gatewayObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// gatewayUse is a configuration of a Rollout for a router of the Gateway API that can
// be read.
type gatewayUse struct {
	plugin string
	config gatewayapi.Config
}

func gatewayUses(ro *v1alpha1.Rollout) []gatewayUse {
	var uses []gatewayUse
	for _, name := range gatewayNames(ro) {
		if config, err := gatewayapi.ConfigOf(ro, name); err == nil {
			uses = append(uses, gatewayUse{name, config})
		}
	}
	return uses
}

// kinds are the kinds of routes that are named or selected, and where.
func (u gatewayUse) kinds() []routesAt {
	var kinds []routesAt
	add := func(kind gatewayapi.Kind) {
		if at := (routesAt{kind, u.config.Namespace}); !slices.Contains(kinds, at) {
			kinds = append(kinds, at)
		}
	}
	for _, route := range u.config.Routes {
		add(route.Kind)
	}
	for _, selector := range u.config.Selectors {
		add(selector.Kind)
	}
	return kinds
}

// routesOf returns the kinds of routes that the Rollouts to check use with a router.
func routesOf(s snapshot, of router) []routesAt {
	var all []routesAt
	for _, ro := range rolloutsToCheck(s) {
		for _, use := range gatewayUses(ro) {
			for _, at := range use.kinds() {
				if use.plugin == of.name && !slices.Contains(all, at) {
					all = append(all, at)
				}
			}
		}
	}
	return all
}

// gatherGateway reads what the Rollouts to check need of the Gateway API.
func gatherGateway(ctx context.Context, c *cluster, s snapshot) gatewaySnapshot {
	var wanted []routesAt
	for _, ro := range rolloutsToCheck(s) {
		for _, use := range gatewayUses(ro) {
			wanted = append(wanted, use.kinds()...)
		}
	}
	var g gatewaySnapshot
	if len(wanted) == 0 {
		return g
	}
	served := servedKinds(ctx, c)
	g.routes = readAll(wanted, func(at routesAt) read[[]unstructured.Unstructured] {
		return gatherRoutes(ctx, c, served, at)
	})
	s.gateway = g
	var gateways []types.NamespacedName
	var granting []string
	var used []*unstructured.Unstructured
	for _, ro := range rolloutsToCheck(s) {
		for _, use := range gatewayUses(ro) {
			for _, route := range routesUsed(s, ro, use) {
				used = append(used, route.Unstructured)
			}
		}
	}
	for _, route := range used {
		gateways = append(gateways, gatewayapi.GatewaysOf(route)...)
		for _, b := range gatewayapi.BackendsOf(route) {
			if b.Namespace != route.GetNamespace() {
				granting = append(granting, b.Namespace)
			}
		}
	}
	g.gateways = readAll(gateways, func(name types.NamespacedName) read[gatewayObject] {
		t, missing := gatewayTarget(served, "Gateway", "gateways", name.Namespace)
		t.name = name.Name
		if missing != nil {
			return read[gatewayObject]{Err: missing}
		}
		return get[gatewayObject](ctx, c, t)
	})
	g.grants = readAll(granting, func(namespace string) read[[]gatewayapi.ReferenceGrant] {
		t, missing := gatewayTarget(served, "ReferenceGrant", "referencegrants", namespace)
		if missing != nil {
			return read[[]gatewayapi.ReferenceGrant]{Err: missing}
		}
		return list[gatewayapi.ReferenceGrant](ctx, c, t)
	})
	g.argoCD = gatherArgoCD(ctx, c, used)
	return g
}

// readAll reads each of the keys once, concurrently.
func readAll[K comparable, V any](keys []K, look func(K) V) map[K]V {
	values := make([]V, len(keys))
	all := map[K]V{}
	var wg sync.WaitGroup
	for i, key := range keys {
		if slices.Contains(keys[:i], key) {
			continue
		}
		wg.Go(func() { values[i] = look(key) })
	}
	wg.Wait()
	for i, key := range keys {
		if !slices.Contains(keys[:i], key) {
			all[key] = values[i]
		}
	}
	return all
}

func servedKinds(ctx context.Context, c *cluster) read[map[string]schema.GroupVersionResource] {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	served, err := kube.ServedKinds(ctx, c.client, gatewayapi.Group)
	if err != nil {
		return read[map[string]schema.GroupVersionResource]{Err: &readError{Verb: "get", Resource: "/apis/" + gatewayapi.Group, Err: err}}
	}
	return read[map[string]schema.GroupVersionResource]{Value: served}
}

// gatewayTarget returns where the objects of a kind of the Gateway API are in a
// namespace, or why there are none.
func gatewayTarget(served read[map[string]schema.GroupVersionResource], kind, resource, namespace string) (target, *readError) {
	t := target{group: gatewayapi.Group, resource: resource, namespace: namespace}
	if served.Err != nil {
		return t, served.Err
	}
	found, ok := served.Value[kind]
	if !ok {
		return t, t.failed("list", errNotServed)
	}
	t.version, t.resource = found.Version, found.Resource
	return t, nil
}

// routeObject is a route as decoded JSON, with whole numbers as integers.
type routeObject struct{ object map[string]any }

// UnmarshalJSON decodes whole numbers as integers, as client-go does.
func (r *routeObject) UnmarshalJSON(data []byte) error { return utiljson.Unmarshal(data, &r.object) }

func gatherRoutes(ctx context.Context, c *cluster, served read[map[string]schema.GroupVersionResource], at routesAt) read[[]unstructured.Unstructured] {
	t, missing := gatewayTarget(served, string(at.kind), at.kind.Resource(), at.namespace)
	if missing != nil {
		return read[[]unstructured.Unstructured]{Err: missing}
	}
	answer := list[routeObject](ctx, c, t)
	routes := make([]unstructured.Unstructured, len(answer.Value))
	for i, route := range answer.Value {
		routes[i] = unstructured.Unstructured{Object: route.object}
		routes[i].SetAPIVersion(t.group + "/" + t.version)
		routes[i].SetKind(string(at.kind))
	}
	return read[[]unstructured.Unstructured]{Value: routes, Err: answer.Err}
}
