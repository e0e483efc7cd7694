// Package protocols is the add-on with an application for tests of protocols other
// than HTTP: it answers with its colour over gRPC, TLS and TCP.
package protocols

import (
	"context"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/demoapp"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

const (
	// Name of the add-on, and of its program.
	Name = "protocols"

	repository = "sandbox/protocols"
)

// Addon describes the application.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the image " + repository + ", which answers over gRPC, TLS and TCP",
		Prepare: func(ctx context.Context, h addon.Host) (addon.Prepared, error) {
			path, err := h.Project(ctx, Name, "sandbox", "./cmd/protocols")
			return addon.Prepared{Paths: addon.Paths{Name: path}}, err
		},
		Images: func(_ context.Context, paths addon.Paths) ([]image.Entry, error) {
			const program = "/" + Name
			return []image.Entry{{
				Repository: repository,
				Tag:        "*",
				Values:     demoapp.Colours,
				Image:      image.Image{Files: map[string]string{program: paths[Name]}, Entrypoint: []string{program}, Env: []string{"COLOR={*}"}},
			}}, nil
		},
	}
}
