package keda

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

const (
	// DefinitionName is the name of the add-on with the definition of ScaledObjects.
	DefinitionName = "scaledobject"

	definition  = "scaledobjects.keda.sh"
	definitions = "definitions"
)

// Definition describes the definition of ScaledObjects, of the release of KEDA that
// programs/go.mod pins. It needs KEDA's module, and none of its programs: without the
// add-on of KEDA nothing acts on ScaledObjects.
func Definition() addon.Addon {
	return addon.Addon{
		Name:    DefinitionName,
		Summary: "the definition of ScaledObjects, without KEDA",
		Default: true,
		Upstream: &build.Source{
			Dir: "keda/programs", Upstream: module, Files: []string{"config/crd/*.yaml", "config/crd/*/*.yaml"},
		},
		Files: map[string]string{definitions: "config/crd"},
		Manifests: func(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
			objects, err := manifest.ReadDir(ctx, c.Kubectl, c.Paths[definitions])
			objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() != definition })
			return []addon.Manifests{{Objects: objects}}, err
		},
	}
}
