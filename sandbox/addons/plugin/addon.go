// Package plugin is the add-on with this project's traffic router plugin: served
// like a release, registered with Argo Rollouts, and with the permissions of
// deploy/rbac.
package plugin

import (
	"context"
	"runtime"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/httpscaledobject"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

// Name of the program.
const Name = "rollouts-plugin-kedify"

// Asset is the name under which the releases server offers the plugin, as its
// release page does.
const Asset = Name + "-" + runtime.GOOS + "-" + runtime.GOARCH

// Addon describes the plugin.
func Addon() addon.Addon {
	return addon.Addon{
		Name:      "plugin",
		Summary:   "the traffic router plugin kedify/http, registered with Argo Rollouts",
		Default:   true,
		Needs:     []string{argorollouts.Name, httpscaledobject.Name},
		Programs:  []addon.Program{{Name: Name, Variable: "PLUGIN", Built: Name}},
		StandIns:  []string{"cp"},
		Commands:  []string{Name},
		Releases:  map[string]string{Asset: Name},
		Images:    []image.Entry{img},
		Manifests: manifests,
	}
}

// img is the image that `make docker-build` makes: the plugin, and a cp for the init
// container that copies it out.
var img = image.Entry{
	Repository: "ghcr.io/kedify/argo-rollouts-plugin",
	Tag:        "dev",
	Image: image.Image{
		Files:      map[string]string{"/" + Name: Name, "/bin/cp": "cp"},
		Entrypoint: []string{"/" + Name},
	},
}

func manifests(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	if err := argorollouts.RegisterAsset(c, "plugin", Name, Asset); err != nil {
		return nil, err
	}
	objects, err := c.Deployed(ctx, "rbac")
	return []addon.Manifests{{Namespace: argorollouts.Namespace, Objects: objects}}, err
}
