// Package argorollouts is the add-on with Argo Rollouts: its controller, from its
// own manifests, and its plugin for kubectl.
package argorollouts

import (
	"context"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

const (
	// Name of the add-on.
	Name = "argo-rollouts"
	// Namespace is the namespace that install.yaml puts the controller in.
	Namespace = "argo-rollouts"
	// Deployment is the name of the controller's Deployment.
	Deployment = "argo-rollouts"
	// Version is what programs/go.mod pins; a test compares them.
	Version = "v1.10.1"

	// Image is the controller's image.
	Image = "quay.io/argoproj/argo-rollouts"

	module     = "github.com/argoproj/argo-rollouts"
	controller = "rollouts-controller"
	kubectl    = "kubectl-argo-rollouts"

	// Manifests is the name of the directory with its manifests among its paths.
	Manifests = "manifests"
)

// Addon describes Argo Rollouts.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the Argo Rollouts controller",
		Default: true,
		Version: Version,
		Upstream: &build.Source{
			Dir:      "argorollouts/programs",
			Upstream: module,
			Packages: []string{module + "/cmd/" + controller, module + "/cmd/" + kubectl},
			// The version stamp of its release builds.
			Stamp: "-X " + module + "/utils/version.version={number}",
			Files: []string{"manifests/install.yaml", "manifests/namespace-install.yaml"},
		},
		Files:    map[string]string{Manifests: "manifests"},
		Commands: []string{kubectl},
		Images: []image.Entry{{Repository: Image, Tag: "*", Image: image.Image{
			Files:      map[string]string{"/bin/" + controller: controller},
			Entrypoint: []string{"/bin/" + controller},
			Env:        []string{"HOME=/home/argo-rollouts"},
			WorkDir:    "/home/argo-rollouts",
			Dirs:       []string{"/tmp"},
		}}},
		Manifests: func(_ context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
			objects, err := manifest.ReadFile(filepath.Join(c.Paths[Manifests], "install.yaml"))
			if err != nil {
				return nil, err
			}
			objects = append(objects, addon.Namespace(Namespace))
			return []addon.Manifests{{Namespace: Namespace, Objects: objects}}, nil
		},
		// The Deployment is available as soon as its process runs, having no
		// readiness probe. The controller's health endpoint (the container port
		// "healthz") answers only after it has downloaded every plugin.
		Ready: []addon.Workload{{Kind: "Deployment", Namespace: Namespace, Name: Deployment, Health: ":8080/healthz"}},
	}
}
