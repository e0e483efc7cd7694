// Package stepplugin is the add-on with this project's canary step plugin: served
// like a release, and registered with Argo Rollouts as kedify/step, which the steps of
// examples/steps use, and under some names more.
package stepplugin

import (
	"context"
	_ "embed"
	"runtime"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

const (
	// Name of the add-on.
	Name = "step-plugin"
	// Program is the name of the plugin's program.
	Program = "rollouts-plugin-step"
	// Asset is the name under which the releases server offers the plugin, as its release
	// page does.
	Asset = Program + "-" + runtime.GOOS + "-" + runtime.GOARCH
	// Image is a release's image; with any tag it runs this sandbox's plugin.
	Image = "ghcr.io/kedify/argo-rollouts-step-plugin"
	// ControllerImage is the image that users build to have the plugin in the
	// controller's image, as docs/how-to/step-admin.md shows.
	ControllerImage = "registry.example.com/argo-rollouts"
)

// registrations lists the plugin under the names that Rollouts of the sandbox use, with
// @LOCATION@ and @SHA256@ to be filled in.
//
//go:embed registrations.yaml
var registrations string

// Addon describes the plugin.
func Addon() addon.Addon {
	return addon.Addon{
		Name:      Name,
		Summary:   "the canary step plugin, registered with Argo Rollouts as kedify/step",
		Needs:     []string{argorollouts.Name},
		Programs:  []addon.Program{{Name: Program, Variable: "STEP_PLUGIN", Built: Program}},
		StandIns:  []string{"cp", "curl", "echo"},
		Commands:  []string{Program},
		Releases:  map[string]string{Asset: Program},
		Images:    images,
		Manifests: manifests,
	}
}

var images = []image.Entry{
	{Repository: Image, Tag: "*", Image: image.Image{
		Files:      map[string]string{"/" + Program: Program, "/bin/cp": "cp"},
		Entrypoint: []string{"/" + Program},
	}},
	{Repository: ControllerImage, Tag: "*", From: argorollouts.Image, Image: image.Image{
		Files: map[string]string{"/plugins/" + Program: Program},
	}},
	// What Jobs of the samples run.
	image.Program("curlimages/curl", "/usr/bin/curl", "curl"),
	image.Program("busybox", "/bin/echo", "echo"),
}

func manifests(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	sum, err := addon.SHA256(c.Paths[Program])
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer("@LOCATION@", c.Releases+"/"+Asset, "@SHA256@", sum).Replace(registrations)
	config, err := manifest.Decode("registrations.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	if err := argorollouts.Register(c, config[0]); err != nil {
		return nil, err
	}
	objects, err := c.Deployed(ctx, "rbac-step")
	return []addon.Manifests{{Namespace: argorollouts.Namespace, Objects: objects}}, err
}
