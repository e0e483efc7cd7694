// Package gatewayapiplugin is the add-on with this project's traffic router plugin for
// the Gateway API: served like a release, registered with Argo Rollouts beside
// other plugins, and with the permissions of deploy/gatewayapi.
package gatewayapiplugin

import (
	"context"
	"runtime"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

const (
	// Name of the add-on.
	Name = "gatewayapi-plugin"
	// Program is the name of the plugin's program.
	Program = "rollouts-plugin-gatewayapi"
	// Asset is the name under which the releases server offers the plugin: the name
	// that users have in their ConfigMaps.
	Asset = Name + "-" + runtime.GOOS + "-" + runtime.GOARCH
)

// Addon describes the plugin.
func Addon() addon.Addon {
	return addon.Addon{
		Name:     Name,
		Summary:  "the traffic router plugin argoproj-labs/gatewayAPI of this project, registered with Argo Rollouts",
		Needs:    []string{argorollouts.Name},
		Programs: []addon.Program{{Name: Program, Variable: "GATEWAYAPI_PLUGIN", Built: Program}},
		Commands: []string{Program},
		Releases: map[string]string{Asset: Program},
		Manifests: func(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
			if err := argorollouts.RegisterAsset(c, "gatewayapi-plugin", Program, Asset); err != nil {
				return nil, err
			}
			objects, err := c.Deployed(ctx, "gatewayapi")
			return []addon.Manifests{{Namespace: argorollouts.Namespace, Objects: objects}}, err
		},
	}
}
