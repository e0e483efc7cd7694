// Package protocols is the add-on with an application for tests of protocols other
// than HTTP: it answers with its colour over gRPC, TLS and TCP.
package protocols

import (
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
	application := image.Program(repository, "/"+Name, Name)
	application.Values = demoapp.Colours
	application.Image.Env = []string{"COLOR={*}"}
	return addon.Addon{
		Name:     Name,
		Summary:  "the image " + repository + ", which answers over gRPC, TLS and TCP",
		StandIns: []string{Name},
		Images:   []image.Entry{application},
	}
}
