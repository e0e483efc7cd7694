// Package scaledobject is the add-on with the definition of KEDA's ScaledObjects,
// which hack/generate.sh takes from KEDA's module. Nothing acts on ScaledObjects.
package scaledobject

import (
	"context"
	_ "embed" // the definition

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

//go:embed keda.sh_scaledobjects.yaml
var definition []byte

// Addon describes the definition.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    "scaledobject",
		Summary: "the definition of ScaledObjects, without KEDA",
		Default: true,
		Manifests: func(context.Context, *addon.Cluster) ([]addon.Manifests, error) {
			objects, err := manifest.Decode("keda.sh_scaledobjects.yaml", definition)
			return []addon.Manifests{{Objects: objects}}, err
		},
	}
}
