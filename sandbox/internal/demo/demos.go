package demo

import (
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/agent"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapiplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/region"
)

// The names of the demos, which are those of traffic routers as far as they show one.
const (
	// Kedify is kedify/http, which writes the split on an HTTPScaledObject.
	Kedify = "kedify"
	// GatewayAPI is argoproj-labs/gatewayAPI, which writes it on an HTTPRoute.
	GatewayAPI = "gatewayapi"
	// Guide is the walk through the guide: kedify/http with KEDA, the agent and an Ingress.
	Guide = "guide"
	// Steps shows Rollouts without a router, whose canaries have steps of the step plugin.
	Steps = "steps"
)

// The proxies that the demo Kedify has a choice of.
const (
	// Embedded is the interceptor's own.
	Embedded = "embedded"
	// Envoy is kedify-proxy, programmed by the interceptor.
	Envoy = "envoy"
)

// Demo is one of the demos there are.
type Demo struct {
	// addons are what its sandbox has besides the default ones.
	addons []string
	// claim is what it sets out to show.
	claim []string
	// play shows it, and fails the player if anything is not as claimed.
	play func(*player)
}

// claimed is what the demo sets out to show, on the screen.
func (d Demo) claimed() []Line {
	lines := make([]Line, 0, len(d.claim))
	for _, line := range d.claim {
		lines = append(lines, Line{line, Bold})
	}
	return lines
}

// Find returns the demo of a router, by its name, and of the proxy that splits its
// requests; an empty proxy means the router's first.
func Find(router, proxy string) (Demo, error) {
	if router == Kedify {
		switch proxy {
		case "", Embedded:
			return canaryDemo(embedded, interceptor.Name), nil
		case Envoy:
			return canaryDemo(envoy, interceptor.Name), nil
		}
		return Demo{}, fmt.Errorf("there is no proxy %q; there are %s and %s", proxy, Embedded, Envoy)
	}
	found, ok := map[string]Demo{
		GatewayAPI: canaryDemo(gateway, contour.Name, gatewayapiplugin.Name),
		Guide:      {addons: []string{agent.Name, contour.Name}, claim: guideClaim, play: (*player).playGuide},
		Steps:      {addons: []string{region.Name}, claim: stepsClaim, play: (*player).playSteps},
	}[router]
	switch {
	case !ok:
		return Demo{}, fmt.Errorf("there is no router %q; there are %s and %s, %s for the walk through the guide, and %s for canaries with steps", router, Kedify, GatewayAPI, Guide, Steps)
	case proxy != "":
		return Demo{}, fmt.Errorf("proxy %q: only router %s has a choice of proxies; leave the proxy out, or take that router", proxy, Kedify)
	}
	return found, nil
}
