// Package gatewayapi is the add-on with the Gateway API's definitions, of the
// standard channel. They have no effect without another add-on that implements
// them.
package gatewayapi

import (
	"context"
	"slices"

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

	definitions = "definitions"
	group       = "gateway.networking.k8s.io"
)

// Addon describes the definitions.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the definitions of the Gateway API's standard channel",
		Version: Version,
		Upstream: &build.Source{
			Dir: "gatewayapi/programs", Upstream: "sigs.k8s.io/gateway-api", Files: []string{"config/crd/standard/*.yaml"},
		},
		Files: map[string]string{definitions: "config/crd/standard"},
		// The second group is that of kinds which are not part of the API yet.
		Defines: []string{group, "gateway.networking.x-k8s.io"},
		Manifests: func(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
			objects, err := manifest.ReadDir(ctx, c.Kubectl, c.Paths[definitions])
			return []addon.Manifests{{Objects: objects}}, err
		},
	}
}

// Serves says whether the definitions of earlier add-ons have a resource, such as
// "tlsroutes", in a version that is served.
func Serves(c *addon.Cluster, resource, version string) bool {
	definition := c.Find("CustomResourceDefinition", "", resource+"."+group)
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
	return c.Find("CustomResourceDefinition", "", "gateways."+group) != nil
}
