// Package gatewayapi is the add-on with the Gateway API's definitions, of the
// standard channel. They have no effect without another add-on that implements
// them.
package gatewayapi

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

const (
	// Name of the add-on.
	Name = "gateway-api"
	// Version is what programs/go.mod pins; a test compares them.
	Version = "v1.3.0"

	module      = "sigs.k8s.io/gateway-api"
	definitions = "definitions"
	group       = ".gateway.networking.k8s.io"
	// experimental is the group of kinds that are not part of the API yet.
	experimental = ".gateway.networking.x-k8s.io"
)

// Addon describes the definitions.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the definitions of the Gateway API's standard channel",
		Version: Version,
		Prepare: func(ctx context.Context, h addon.Host) (addon.Prepared, error) {
			entry, err := h.Upstream(ctx, build.Source{
				Name: Name, Dir: h.Addons("gatewayapi", "programs"), Upstream: module, Files: []string{"config/crd/standard/*.yaml"},
			})
			if err != nil {
				return addon.Prepared{}, err
			}
			return addon.Prepared{Version: entry.Version, Paths: addon.Paths{definitions: entry.File("config/crd/standard")}}, nil
		},
		Manifests: func(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
			objects, err := manifest.ReadDir(ctx, c.Kubectl, c.Paths[definitions])
			return []addon.Manifests{{Objects: objects}}, err
		},
	}
}

// Defines says whether a custom resource definition is the Gateway API's, of either
// channel.
func Defines(definition string) bool {
	return strings.HasSuffix(definition, group) || strings.HasSuffix(definition, experimental)
}

// Serves says whether the definitions of earlier add-ons have a resource, such as
// "tlsroutes", in a version that is served.
func Serves(c *addon.Cluster, resource, version string) bool {
	definition := c.Find("CustomResourceDefinition", "", resource+group)
	if definition == nil {
		return false
	}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(v any) bool {
		served, _ := v.(map[string]any)
		return served["name"] == version && served["served"] == true
	})
}

// IsIn says whether earlier add-ons bring the definitions.
func IsIn(c *addon.Cluster) bool {
	return c.Find("CustomResourceDefinition", "", "gateways"+group) != nil
}
