// Package keda is the add-on with KEDA: its operator, its metrics server and its
// admission webhooks, from its own manifests. The definition of ScaledObjects is an
// add-on by itself, for sandboxes without KEDA.
package keda

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// programs are KEDA's programs by the packages below cmd, each with the name that the
// programs have in KEDA's images, and with the image.
var programs = map[string]struct{ path, repository string }{
	"operator": {"/keda", "ghcr.io/kedacore/keda"},
	"adapter":  {"/keda-adapter", "ghcr.io/kedacore/keda-metrics-apiserver"},
	"webhooks": {"/keda-admission-webhooks", "ghcr.io/kedacore/keda-admission-webhooks"},
}

// Addon describes KEDA.
func Addon() addon.Addon {
	return addon.Addon{
		Name:      Name,
		Summary:   "KEDA, in namespace " + Namespace,
		Version:   Version,
		After:     []string{DefinitionName},
		Prepare:   prepare,
		Images:    images,
		Manifests: objects,
		Ready: []addon.Workload{
			{Kind: "Deployment", Namespace: Namespace, Name: Operator},
			{Kind: "Deployment", Namespace: Namespace, Name: MetricsServer},
			{Kind: "Deployment", Namespace: Namespace, Name: Webhooks},
		},
	}
}

func prepare(ctx context.Context, h addon.Host) (addon.Prepared, error) {
	source := build.Source{
		Name:     Name,
		Dir:      h.Addons("keda", "programs"),
		Upstream: module,
		OwnSums:  true,
		// The version stamp of its release builds.
		Stamp: "-X " + module + "/version.Version={number}",
		Files: []string{"config/*/*.yaml", "config/*/*/*.yaml"},
	}
	// One build of all programs compiles once what they share.
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		source.Packages = append(source.Packages, module+"/cmd/"+name)
	}
	entry, err := h.Upstream(ctx, source)
	if err != nil {
		return addon.Prepared{}, err
	}
	paths := addon.Paths{manifests: entry.File("config/default")}
	for name := range programs {
		paths[name] = entry.Program(name)
	}
	return addon.Prepared{Version: entry.Version, Paths: paths}, nil
}

func images(_ context.Context, paths addon.Paths) ([]image.Entry, error) {
	var entries []image.Entry
	for name, program := range programs {
		entries = append(entries, image.Entry{
			Repository: program.repository,
			Tag:        "*",
			Image:      image.Image{Files: map[string]string{program.path: paths[name]}, Entrypoint: []string{program.path}},
		})
	}
	return entries, nil
}

// objects are what KEDA's kustomization makes, which has all namespaces in it. The
// namespace admits only pods that any cluster admits.
func objects(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	all, err := manifest.ReadDir(ctx, c.Kubectl, c.Paths[manifests])
	if err != nil {
		return nil, err
	}
	var own []*unstructured.Unstructured
	restricted := false
	for _, o := range all {
		switch {
		case o.GetKind() == "CustomResourceDefinition" && o.GetName() == definition:
			// This KEDA may be of another release than the definition.
			if before := c.Find("CustomResourceDefinition", "", definition); before != nil {
				before.Object = o.Object
				continue
			}
		case o.GetKind() == "Namespace" && o.GetName() == Namespace:
			labels := o.GetLabels()
			if labels == nil {
				labels = make(map[string]string)
			}
			labels["pod-security.kubernetes.io/enforce"] = "restricted"
			o.SetLabels(labels)
			restricted = true
		}
		own = append(own, o)
	}
	if !restricted {
		return nil, fmt.Errorf("the manifests in %s have no namespace %s", c.Paths[manifests], Namespace)
	}
	return []addon.Manifests{{Objects: own}}, nil
}
