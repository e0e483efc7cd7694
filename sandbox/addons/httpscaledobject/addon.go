// Package httpscaledobject is the add-on with the definition of HTTPScaledObjects,
// from deploy/crds.
package httpscaledobject

import (
	"context"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

// Name of the add-on.
const Name = "httpscaledobject"

// Addon describes the definition.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the definition of HTTPScaledObjects",
		Manifests: func(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
			objects, err := c.Deployed(ctx, "crds")
			return []addon.Manifests{{Objects: objects}}, err
		},
	}
}
