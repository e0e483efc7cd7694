// Package interceptor is the add-on with this project's interceptor, from
// deploy/interceptor.
package interceptor

import (
	"context"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/envoy"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/httpscaledobject"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

const (
	// Name of the add-on, and of its program.
	Name = "interceptor"
	// Namespace is the namespace that deploy/interceptor puts it in.
	Namespace = keda.Namespace
	// Scaler is the name of the scaler's program, which the interceptor's image has, too.
	Scaler = "scaler"
	// Agent is that of the agent's, which it has, too.
	Agent = "agent"
	// Deployment is the name of the interceptor's Deployment.
	Deployment = "keda-add-ons-http-interceptor"
)

// Addon describes the interceptor.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the interceptor, in namespace " + Namespace,
		// kedify-proxy, which users apply themselves, needs Envoy.
		Needs:    []string{httpscaledobject.Name, envoy.Name},
		Commands: []string{Name},
		Programs: []addon.Program{
			{Name: Name, Variable: "INTERCEPTOR", Built: "bin/" + Name},
			{Name: Scaler, Variable: "SCALER", Built: "bin/" + Scaler},
			{Name: Agent, Variable: "AGENT", Built: "bin/" + Agent},
		},
		Images: []image.Entry{{
			Repository: "ghcr.io/kedify/argo-rollouts-interceptor",
			Tag:        "*", // dev of deploy/, and those of a release's files
			Image: image.Image{
				Files:      map[string]string{"/interceptor": Name, "/scaler": Scaler, "/agent": Agent},
				Entrypoint: []string{"/interceptor"},
			},
		}},
		Manifests: manifests,
	}
}

func manifests(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	objects, err := c.Deployed(ctx, "interceptor")
	if err != nil {
		return nil, err
	}
	// The access logs of both proxies, for objects with the annotation, which an
	// end-to-end test sets: the flags are none that a user has to give.
	if err := addon.AddArguments(objects, Deployment, "--access-log=annotated", "--kedify-proxy-access-log=annotated"); err != nil {
		return nil, err
	}
	// The manifests make no namespace, as it is usually KEDA's.
	objects = append(objects, addon.RestrictedNamespace(Namespace))
	return []addon.Manifests{{Namespace: Namespace, Objects: objects}}, nil
}
