// Package stepplugin is the add-on with this project's canary step plugin: served as a
// release is, and registered with Argo Rollouts under a name for each kind of step.
package stepplugin

import (
	"context"
	_ "embed"
	"runtime"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

const (
	// Name of the add-on.
	Name = "step-plugin"
	// Program is the plugin's.
	Program = "rollouts-plugin-step"
	// Asset is the name under which the releases server offers the plugin, as its release
	// page does.
	Asset = Program + "-" + runtime.GOOS + "-" + runtime.GOARCH
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
		Summary:   "the canary step plugin, registered with Argo Rollouts under a name for each kind of step",
		Needs:     []string{argorollouts.Name},
		Prepare:   prepare,
		Programs:  []addon.Program{{Name: Program, Variable: "STEP_PLUGIN", Built: Program}},
		Commands:  []string{Program},
		Releases:  []string{Asset},
		Manifests: manifests,
	}
}

func prepare(ctx context.Context, h addon.Host) (addon.Prepared, error) {
	path, err := h.Project(ctx, Program, ".", "./cmd/"+Program)
	return addon.Prepared{Paths: addon.Paths{Program: path, Asset: path}}, err
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
