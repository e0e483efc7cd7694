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
		Prepare:   prepare,
		Programs:  []addon.Program{{Name: Name, Variable: "PLUGIN", Built: Name}},
		Commands:  []string{Name},
		Releases:  []string{Asset},
		Images:    images,
		Manifests: manifests,
	}
}

func prepare(ctx context.Context, h addon.Host) (addon.Prepared, error) {
	path, err := h.Project(ctx, Name, ".", "./cmd/"+Name)
	if err != nil {
		return addon.Prepared{}, err
	}
	cp, err := h.Copier(ctx)
	return addon.Prepared{Paths: addon.Paths{Name: path, Asset: path, addon.Copier: cp}}, err
}

// images is the image that `make docker-build` makes: the plugin, and a cp for
// the init container that copies it out.
func images(_ context.Context, paths addon.Paths) ([]image.Entry, error) {
	const program = "/" + Name
	return []image.Entry{{
		Repository: "ghcr.io/kedify/argo-rollouts-plugin",
		Tag:        "dev",
		Image: image.Image{
			Files:      map[string]string{program: paths[Name], "/bin/cp": paths[addon.Copier]},
			Entrypoint: []string{program},
		},
	}}, nil
}

func manifests(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	if err := argorollouts.RegisterAsset(c, "plugin", Asset); err != nil {
		return nil, err
	}
	objects, err := c.Deployed(ctx, "rbac")
	return []addon.Manifests{{Namespace: argorollouts.Namespace, Objects: objects}}, err
}
