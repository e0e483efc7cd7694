// Package contour is the add-on with Contour: an ingress controller and an
// implementation of the Gateway API, from its own manifests.
package contour

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		Needs:   []string{envoy.Name},
		After:   []string{gatewayapi.Name},
		Prepare: prepare,
		Images: func(_ context.Context, paths addon.Paths) ([]image.Entry, error) {
			const program = "/bin/" + Name
			return []image.Entry{{
				Repository: "ghcr.io/projectcontour/contour",
				Tag:        "*",
				Image:      image.Image{Files: map[string]string{program: paths[Name]}, Entrypoint: []string{program}},
			}}, nil
		},
		Manifests: objects,
		Ready: []addon.Workload{
			{Kind: "Deployment", Namespace: Namespace, Name: deployment},
			{Kind: "DaemonSet", Namespace: Namespace, Name: "envoy"},
		},
	}
}

func prepare(ctx context.Context, h addon.Host) (addon.Prepared, error) {
	entry, err := h.Upstream(ctx, build.Source{
		Name:     Name,
		Dir:      h.Addons("contour", "programs"),
		Upstream: module,
		Packages: []string{module + "/cmd/contour"},
		// The version stamp of its release builds.
		Stamp: "-X " + module + "/internal/build.Version={version}",
		Files: []string{"examples/render/" + example},
	})
	if err != nil {
		return addon.Prepared{}, err
	}
	return addon.Prepared{Version: entry.Version, Paths: addon.Paths{
		Name: entry.Program(Name), manifests: entry.File("examples/render"),
	}}, nil
}

// features are the kinds of the Gateway API that Contour can do without, with the
// version that it reads: Contour exits if that version is not served.
var features = map[string]string{
	"backendtlspolicies": "v1alpha3", "grpcroutes": "v1", "tcproutes": "v1alpha2", "tlsroutes": "v1alpha2",
}

// objects are Contour's example. It brings the definitions of the Gateway API's
// experimental channel. If the sandbox has other definitions, Contour's own are
// left out, and Contour is told which kinds are missing.
func objects(_ context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	all, err := manifest.ReadFile(filepath.Join(c.Paths[manifests], example))
	if err != nil {
		return nil, err
	}
	if !gatewayapi.IsIn(c) {
		return []addon.Manifests{{Namespace: Namespace, Objects: all}}, nil
	}
	for _, feature := range slices.Sorted(maps.Keys(features)) {
		if !gatewayapi.Serves(c, feature, features[feature]) {
			if err := addArgument(all, "--disable-feature="+feature); err != nil {
				return nil, err
			}
		}
	}
	all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "CustomResourceDefinition" && gatewayapi.Defines(o.GetName())
	})
	return []addon.Manifests{{Namespace: Namespace, Objects: all}}, nil
}

// addArgument adds an argument to the container of Contour's Deployment.
func addArgument(objects []*unstructured.Unstructured, argument string) error {
	for _, o := range objects {
		if o.GetKind() != "Deployment" || o.GetName() != deployment {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if len(containers) != 1 {
			break
		}
		container, _ := containers[0].(map[string]any)
		arguments, _, _ := unstructured.NestedStringSlice(container, "args")
		if err := unstructured.SetNestedStringSlice(container, append(arguments, argument), "args"); err != nil {
			return err
		}
		return unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	}
	return errors.New("Contour's example has no Deployment " + deployment + " with one container")
}
