// Package agent is the add-on with this project's agent, from deploy/agent. Its program
// comes with the interceptor's image.
package agent

import (
	"context"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/scaler"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

const (
	// Name of the add-on.
	Name = "agent"
	// Deployment is the name of the agent's Deployment, in KEDA's namespace.
	Deployment = "kedify-agent"
)

// Addon describes the agent.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the agent, which makes HTTPScaledObjects of ScaledObjects, in namespace " + keda.Namespace,
		Needs:   []string{scaler.Name},
		Manifests: func(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
			objects, err := c.Deployed(ctx, "agent")
			return []addon.Manifests{{Namespace: keda.Namespace, Objects: objects}}, err
		},
	}
}
