// Package demoapp is the add-on with the application of the samples, in place of
// the image argoproj/rollouts-demo.
package demoapp

import (
	"context"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

const (
	repository = "argoproj/rollouts-demo"
	program    = "rollouts-demo"
)

// Colours are the tags that argoproj/rollouts-demo is published under.
var Colours = []string{"blue", "green", "orange", "purple", "red", "yellow"}

// Addon describes the application.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    "demo-app",
		Summary: "the image " + repository,
		Default: true,
		Prepare: func(ctx context.Context, h addon.Host) (addon.Prepared, error) {
			path, err := h.Project(ctx, program, "sandbox", "./cmd/rollouts-demo")
			return addon.Prepared{Paths: addon.Paths{program: path}}, err
		},
		Images: func(_ context.Context, paths addon.Paths) ([]image.Entry, error) {
			return images(paths[program]), nil
		},
	}
}

// images are the application in all its colours, also slow (each answer takes two
// seconds) and bad (15 in a hundred requests fail).
func images(program string) []image.Entry {
	entry := func(tag string, env ...string) image.Entry {
		return image.Entry{
			Repository: repository,
			Tag:        tag,
			Values:     Colours,
			Image: image.Image{
				Files:      map[string]string{"/rollouts-demo": program},
				Entrypoint: []string{"/rollouts-demo"},
				Env:        append([]string{"COLOR={*}"}, env...),
			},
		}
	}
	return []image.Entry{entry("slow-*", "LATENCY=2"), entry("bad-*", "ERROR_RATE=15"), entry("*")}
}
