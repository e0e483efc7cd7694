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
	// controller's image, as docs/steps-admin.md shows.
	ControllerImage = "registry.example.com/argo-rollouts"

	// inController is the program's path in ControllerImage.
	inController = "/plugins/" + Program

	// curl and echo are the programs that Jobs of the samples run.
	curl = "curl"
	echo = "echo"
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
		Prepare:   prepare,
		Programs:  []addon.Program{{Name: Program, Variable: "STEP_PLUGIN", Built: Program}},
		Commands:  []string{Program},
		Releases:  []string{Asset},
		Images:    images,
		Manifests: manifests,
	}
}

func prepare(ctx context.Context, h addon.Host) (addon.Prepared, error) {
	path, err := h.Project(ctx, Program, ".", "./cmd/"+Program)
	if err != nil {
		return addon.Prepared{}, err
	}
	cp, err := h.Copier(ctx)
	if err != nil {
		return addon.Prepared{}, err
	}
	paths := addon.Paths{Program: path, Asset: path, addon.Copier: cp}
	for _, name := range []string{curl, echo} {
		if paths[name], err = h.Project(ctx, name, "sandbox", "./cmd/"+name); err != nil {
			return addon.Prepared{}, err
		}
	}
	return addon.Prepared{Paths: paths}, nil
}

func images(_ context.Context, paths addon.Paths) ([]image.Entry, error) {
	const program, curlProgram, echoProgram = "/" + Program, "/usr/bin/curl", "/bin/echo"
	return []image.Entry{
		{Repository: Image, Tag: "*", Image: image.Image{
			Files:      map[string]string{program: paths[Program], "/bin/cp": paths[addon.Copier]},
			Entrypoint: []string{program},
		}},
		{Repository: ControllerImage, Tag: "*", From: argorollouts.Image, Image: image.Image{
			Files: map[string]string{inController: paths[Program]},
		}},
		{Repository: "curlimages/curl", Tag: "*", Image: image.Image{
			Files: map[string]string{curlProgram: paths[curl]}, Entrypoint: []string{curlProgram},
		}},
		{Repository: "busybox", Tag: "*", Image: image.Image{
			Files: map[string]string{echoProgram: paths[echo]}, Entrypoint: []string{echoProgram},
		}},
	}, nil
}

func manifests(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	sum, err := addon.SHA256(c.Paths[Asset])
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
