package check

import (
	"context"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// gatewaySnapshot is what Rollouts with a router for the Gateway API need of the
// cluster.
type gatewaySnapshot struct {
	// routes are all routes of a kind in a namespace. For a kind that the cluster does
	// not serve there is an error, and its kindMissing is true.
	routes map[routesAt]read[[]unstructured.Unstructured]
}

// routesAt are the routes of a kind in a namespace.
type routesAt struct {
	kind      gatewayapi.Kind
	namespace string
}

// gatewayUse is a configuration of a Rollout for a router of the Gateway API that can
// be read.
type gatewayUse struct {
	plugin string
	config gatewayapi.Config
}

func gatewayUses(ro *v1alpha1.Rollout) []gatewayUse {
	var uses []gatewayUse
	for _, use := range routersOf(ro) {
		if use.problem != "" || use.name == kedify.PluginName {
			continue
		}
		if config, err := gatewayapi.ConfigOf(ro, use.name); err == nil {
			uses = append(uses, gatewayUse{use.name, config})
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

// routesOf returns the kinds of routes that the Rollouts to check use with a plugin; with
// any plugin if the name is empty.
func routesOf(s snapshot, plugin string) []routesAt {
	var all []routesAt
	for _, ro := range rolloutsToCheck(s) {
		for _, use := range gatewayUses(ro) {
			for _, at := range use.kinds() {
				if (plugin == "" || use.plugin == plugin) && !slices.Contains(all, at) {
					all = append(all, at)
				}
			}
		}
	}
	return all
}

// gatherGateway reads the routes that the Rollouts to check need.
func gatherGateway(ctx context.Context, c *cluster, s snapshot) gatewaySnapshot {
	wanted := routesOf(s, "")
	if len(wanted) == 0 {
		return gatewaySnapshot{}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	g := gatewaySnapshot{routes: map[routesAt]read[[]unstructured.Unstructured]{}}
	served, err := kube.ServedKinds(ctx, c.client, gatewayapi.Group)
	for _, at := range wanted {
		if err != nil {
			g.routes[at] = read[[]unstructured.Unstructured]{Err: &readError{Verb: "get", Resource: "/apis/" + gatewayapi.Group, Err: err}}
		} else {
			g.routes[at] = gatherRoutes(ctx, c, served, at)
		}
	}
	return g
}

// routeObject is a route as decoded JSON, with whole numbers as integers.
type routeObject struct{ object map[string]any }

// UnmarshalJSON decodes whole numbers as integers, as client-go does.
func (r *routeObject) UnmarshalJSON(data []byte) error { return utiljson.Unmarshal(data, &r.object) }

func gatherRoutes(ctx context.Context, c *cluster, served map[string]schema.GroupVersionResource, at routesAt) read[[]unstructured.Unstructured] {
	t := target{group: gatewayapi.Group, resource: at.kind.Resource(), namespace: at.namespace}
	found, isServed := served[string(at.kind)]
	if !isServed {
		return read[[]unstructured.Unstructured]{Err: t.failed("list", errNotServed)}
	}
	t.version, t.resource = found.Version, found.Resource
	answer := list[routeObject](ctx, c, t)
	routes := make([]unstructured.Unstructured, len(answer.Value))
	for i, route := range answer.Value {
		routes[i] = unstructured.Unstructured{Object: route.object}
		routes[i].SetAPIVersion(t.group + "/" + t.version)
		routes[i].SetKind(string(at.kind))
	}
	return read[[]unstructured.Unstructured]{Value: routes, Err: answer.Err}
}
