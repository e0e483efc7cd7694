// Package scaler is the add-on with this project's external scaler for KEDA, from
// deploy/scaler. Its program comes with the interceptor's image.
package scaler

import (
	"context"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

const (
	// Name of the add-on.
	Name = "scaler"
	// Deployment is the name of the scaler's Deployment, in KEDA's namespace.
	Deployment = "keda-add-ons-http-external-scaler"
)

// Addon describes the scaler.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "KEDA's external scaler by requests, in namespace " + keda.Namespace,
		Needs:   []string{keda.Name, interceptor.Name},
		Manifests: func(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
			objects, err := c.Deployed(ctx, "scaler")
			return []addon.Manifests{{Namespace: keda.Namespace, Objects: objects}}, err
		},
	}
}
