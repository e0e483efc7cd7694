// Package keda is the add-on with KEDA: its operator, its metrics server and its
// admission webhooks, from its own manifests. The definition of ScaledObjects is an
// add-on by itself, for sandboxes without KEDA.
package keda

import (
	"context"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

const (
	// Name of the add-on.
	Name = "keda"
	// Namespace is the namespace that its manifests put it in.
	Namespace = "keda"
	// Version is what programs/go.mod pins; a test compares them.
	Version = "v2.21.0"

	// Operator is the Deployment of KEDA's operator.
	Operator = "keda-operator"
	// MetricsServer is the Deployment of KEDA's adapter.
	MetricsServer = "keda-metrics-apiserver"
	// Webhooks is the Deployment of KEDA's admission webhooks.
	Webhooks = "keda-admission"

	module    = "github.com/kedacore/keda/v2"
	manifests = "manifests"
)

// Addon describes KEDA.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "KEDA, in namespace " + Namespace,
		Version: Version,
		Defines: []string{"keda.sh"},
		Upstream: &build.Source{
			Dir:      "keda/programs",
			Upstream: module,
			OwnSums:  true,
			// One build of all programs compiles once what they share.
			Packages: []string{module + "/cmd/adapter", module + "/cmd/operator", module + "/cmd/webhooks"},
			// The version stamp of its release builds.
			Stamp: "-X " + module + "/version.Version={number}",
			Files: []string{"config/*/*.yaml", "config/*/*/*.yaml"},
		},
		Files: map[string]string{manifests: "config/default"},
		Images: []image.Entry{
			image.Program("ghcr.io/kedacore/keda", "/keda", "operator"),
			image.Program("ghcr.io/kedacore/keda-metrics-apiserver", "/keda-adapter", "adapter"),
			image.Program("ghcr.io/kedacore/keda-admission-webhooks", "/keda-admission-webhooks", "webhooks"),
		},
		Manifests: objects,
	}
}

// objects are what KEDA's kustomization makes, which has all namespaces in it. The
// namespace admits only pods that any cluster admits.
func objects(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	all, err := manifest.ReadDir(ctx, c.Kubectl, c.Paths[manifests])
	return []addon.Manifests{{Objects: append(all, addon.RestrictedNamespace(Namespace))}}, err
}
