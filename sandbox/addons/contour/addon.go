// Package contour is the add-on with Contour: an ingress controller and an
// implementation of the Gateway API, from its own manifests.
package contour

import (
	"context"
	"maps"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/envoy"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

const (
	// Name of the add-on, and of its program.
	Name = "contour"
	// Namespace is the namespace that its manifests put it in.
	Namespace = "projectcontour"
	// Service is the Service of its Envoys.
	Service = "envoy"
	// Gateway is the Gateway that its Envoys serve.
	Gateway = "contour"
	// Version is what programs/go.mod pins; a test compares them.
	Version = "v1.33.8"

	module    = "github.com/projectcontour/contour"
	manifests = "manifests"
	// deployment is Contour itself.
	deployment = "contour"
	// example is Contour's example with a Gateway; it has all of the example
	// without one.
	example = "contour-gateway.yaml"
)

// Addon describes Contour.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "Contour, for Ingresses and the Gateway API, in namespace " + Namespace,
		Version: Version,
		// Its Envoy pods run the sandbox's Envoy, whatever their image's tag.
		Needs: []string{envoy.Name},
		// Its flags depend on what is defined.
		After: []string{gatewayapi.Name},
		Upstream: &build.Source{
			Dir:      "contour/programs",
			Upstream: module,
			Packages: []string{module + "/cmd/" + Name},
			// The version stamp of its release builds.
			Stamp: "-X " + module + "/internal/build.Version={version}",
			Files: []string{"examples/render/" + example},
			// It requires later releases of Kubernetes' libraries.
			OwnVersions: true,
		},
		Files:     map[string]string{manifests: "examples/render/" + example},
		Images:    []image.Entry{image.Program("ghcr.io/projectcontour/contour", "/bin/"+Name, Name)},
		Manifests: objects,
		Gateway: &addon.Gateway{
			Class: "example", Namespace: Namespace, Name: Gateway, Service: Service, Controller: deployment, Replicas: 2,
		},
	}
}

// features are the kinds of the Gateway API that Contour can do without, with the
// version that it reads: Contour exits if that version is not served.
var features = map[string]string{
	"backendtlspolicies": "v1alpha3", "grpcroutes": "v1", "tcproutes": "v1alpha2", "tlsroutes": "v1alpha2",
}

// objects are Contour's example. It brings the definitions of the Gateway API's
// experimental channel. If the sandbox has other definitions, Contour is told which kinds
// are missing.
func objects(_ context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	all, err := manifest.ReadFile(c.Paths[manifests])
	if err != nil {
		return nil, err
	}
	if gatewayapi.IsIn(c) {
		for _, feature := range slices.Sorted(maps.Keys(features)) {
			if gatewayapi.Serves(c, feature, features[feature]) {
				continue
			}
			if err := addon.AddArguments(all, deployment, "--disable-feature="+feature); err != nil {
				return nil, err
			}
		}
	}
	return []addon.Manifests{{Namespace: Namespace, Objects: all}}, nil
}
