package demo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/agent"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapiplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/region"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
)

// Router is the traffic router whose canaries are shown.
type Router string

// The routers there are.
const (
	// Kedify is kedify/http, which writes the split on an HTTPScaledObject.
	Kedify Router = "kedify"
	// GatewayAPI is argoproj-labs/gatewayAPI, which writes it on an HTTPRoute.
	GatewayAPI Router = "gatewayapi"
	// Guide is kedify/http in the walk through the guide: with KEDA, the agent and an
	// Ingress.
	Guide Router = "guide"
	// Steps is no router: Rollouts without one, whose canaries have steps of the step plugin.
	Steps Router = "steps"
)

// ParseRouter reads the name of a router, and that of the proxy which splits its
// requests; an empty proxy means the router's first.
func ParseRouter(router, proxy string) (Router, Proxy, error) {
	switch r := Router(router); {
	case r == Kedify && proxy == "":
		return r, Embedded, nil
	case r == Kedify:
		p, err := ParseProxy(proxy)
		return r, p, err
	case r == GatewayAPI && proxy != "":
		return "", "", fmt.Errorf("proxy %q: with router %s the Gateway's Envoy splits the requests; leave the proxy out, or take router %s", proxy, GatewayAPI, Kedify)
	case r == GatewayAPI:
		return r, Gateway, nil
	case r == Guide && proxy != "":
		return "", "", fmt.Errorf("proxy %q: in the guide kedify-proxy splits the requests; leave the proxy out, or take router %s", proxy, Kedify)
	case r == Guide:
		return r, Ingress, nil
	case r == Steps && proxy != "":
		return "", "", fmt.Errorf("proxy %q: no requests are sent in the demo of steps; leave the proxy out, or take router %s", proxy, Kedify)
	case r == Steps:
		return r, "", nil
	}
	return "", "", fmt.Errorf("there is no router %q; there are %s and %s, %s for the walk through the guide, and %s for canaries with steps", router, Kedify, GatewayAPI, Guide, Steps)
}

// setting is where the demo of a router takes place.
type setting struct {
	// addons are what its sandbox has besides the default ones.
	addons []string
	// before are the directories of the manifests that are applied before the sample,
	// for the whole cluster.
	before []string
	// sample is the directory of the manifests that are applied in the namespace,
	// rollout the name of the Rollout in it and of the Rollout's container.
	sample, namespace, rollout string
	// resource and object name the object that carries the split; carrier is what
	// people call the place.
	resource        schema.GroupVersionResource
	object, carrier string
	// read returns the split that the object carries, in the form of Canary.Split.
	read func(*unstructured.Unstructured) string
	// caughtAt is the weight at which the bad version is to be caught.
	caughtAt int32
	// rate is how many requests are sent a second; rate itself unless it is given.
	rate float64
}

var settings = map[Router]setting{
	Kedify: {
		addons: []string{interceptor.Name},
		sample: "sandbox/manifests/demo", namespace: "rollouts-demo", rollout: "rollouts-demo",
		resource: cluster.HTTPScaledObjectGVR, object: "rollouts-demo", carrier: "annotation",
		read:     func(o *unstructured.Unstructured) string { return o.GetAnnotations()[splitAnnotation] },
		caughtAt: 20,
	},
	GatewayAPI: {
		addons: []string{contour.Name, gatewayapiplugin.Name},
		before: []string{"examples/gatewayapi/gateway"},
		sample: "sandbox/manifests/demo-gatewayapi", namespace: "my-app", rollout: "my-app",
		resource: httpRouteGVR, object: "my-app-route", carrier: "HTTPRoute",
		read:     routeText,
		caughtAt: 5,
	},
	Guide: {
		addons:    []string{agent.Name, contour.Name},
		namespace: sourceguide.Namespace, rollout: sourceguide.Name,
		resource: cluster.HTTPScaledObjectGVR, object: sourceguide.Name, carrier: "annotation",
		read: func(o *unstructured.Unstructured) string { return o.GetAnnotations()[splitAnnotation] },
		rate: guideRate,
	},
	Steps: {
		addons: []string{region.Name},
		sample: "sandbox/manifests/demo-steps", namespace: "shop",
	},
}

// carrier is what people call the place that a router writes the split to.
func (r Router) carrier() string {
	if r == "" {
		r = Kedify
	}
	return settings[r].carrier
}

// acts are the canaries of the demo.
func (s setting) acts() []Act {
	if s.caughtAt == 0 {
		return guideActs
	}
	return []Act{
		{Title: "promoted step by step", Image: "argoproj/rollouts-demo:yellow"},
		{Title: "fails 15 in 100 requests, aborted by the analysis", Image: "argoproj/rollouts-demo:bad-green", CaughtAt: s.caughtAt},
	}
}
