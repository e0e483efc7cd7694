// Package addons lists the add-ons of the sandbox.
package addons

import (
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/agent"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/demoapp"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/envoy"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/envoygateway"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapiplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/httpscaledobject"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/kubectlcanary"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/plugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/prometheusrule"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/protocols"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/region"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/scaler"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/stepplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

// All returns every add-on.
func All() []addon.Addon {
	return []addon.Addon{
		agent.Addon(),
		argorollouts.Addon(),
		contour.Addon(),
		demoapp.Addon(),
		envoy.Addon(),
		envoygateway.Addon(),
		gatewayapi.Addon(),
		gatewayapiplugin.Addon(),
		httpscaledobject.Addon(),
		interceptor.Addon(),
		keda.Addon(),
		kubectlcanary.Addon(),
		plugin.Addon(),
		prometheusrule.Addon(),
		protocols.Addon(),
		region.Addon(),
		keda.Definition(),
		scaler.Addon(),
		stepplugin.Addon(),
	}
}
