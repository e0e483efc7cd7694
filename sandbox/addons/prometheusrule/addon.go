// Package prometheusrule is the add-on with the definition of Prometheus Operator's
// PrometheusRules, which hack/generate.sh takes from its module. Nothing acts on
// PrometheusRules.
package prometheusrule

import (
	"context"
	_ "embed" // the definition

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

// Name is the add-on's.
const Name = "prometheusrule"

//go:embed monitoring.coreos.com_prometheusrules.yaml
var definition []byte

// Addon describes the definition.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the definition of PrometheusRules, without Prometheus Operator",
		Manifests: func(context.Context, *addon.Cluster) ([]addon.Manifests, error) {
			objects, err := manifest.Decode("monitoring.coreos.com_prometheusrules.yaml", definition)
			return []addon.Manifests{{Objects: objects}}, err
		},
	}
}
