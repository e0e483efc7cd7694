// Package envoygateway is the add-on with Envoy Gateway: a second implementation of
// the Gateway API beside Contour, from its own chart, with a Gateway.
package envoygateway

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/envoy"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

const (
	// Name of the add-on, and of its program.
	Name = "envoy-gateway"
	// Namespace is the namespace that its chart is installed in.
	Namespace = "envoy-gateway-system"
	// Class is the GatewayClass that it implements.
	Class = "envoy-gateway"
	// Gateway is the Gateway that its Envoys serve. Their Deployment and their Service
	// have that name, too.
	Gateway = "envoy"
	// Version is what programs/go.mod pins; a test compares them.
	Version = "v1.9.1"

	module     = "github.com/envoyproxy/gateway"
	repository = "envoyproxy/gateway"
	chart      = "charts/gateway-helm"
	helm       = "helm"
)

//go:embed gateway.yaml
var gateway []byte

// Addon describes Envoy Gateway.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "Envoy Gateway, another implementation of the Gateway API, in namespace " + Namespace,
		Version: Version,
		// The pods that it makes run the sandbox's Envoy, whatever their image's tag.
		Needs: []string{envoy.Name},
		// Its chart's values depend on what is defined.
		After: []string{gatewayapi.Name},
		Upstream: &build.Source{
			Dir:      "envoygateway/programs",
			Upstream: module,
			// Helm, which is among its requirements, renders its chart.
			Packages: []string{module + "/cmd/" + Name, "helm.sh/helm/v3/cmd/" + helm},
			// The version stamp of its release builds.
			Stamp: "-X " + module + "/internal/cmd/version.envoyGatewayVersion={version}",
			Files: []string{
				chart + "/*.yaml", chart + "/templates/*", chart + "/charts/crds/*.yaml", chart + "/charts/crds/templates/*",
				chart + "/charts/crds/crds/*.yaml", chart + "/charts/crds/crds/generated/*.yaml",
			},
			// It requires later releases of Kubernetes' libraries.
			OwnVersions: true,
		},
		Files:     map[string]string{chart: chart},
		Images:    []image.Entry{image.Program(repository, "/usr/local/bin/"+Name, Name)},
		Manifests: objects,
		// It makes this Deployment of the Gateway.
		Ready: []addon.Workload{{Kind: "Deployment", Namespace: Namespace, Name: Gateway}},
		Gateway: &addon.Gateway{
			Class: Class, Namespace: Namespace, Name: Gateway, Service: Gateway, Controller: Name, Replicas: 1,
		},
	}
}

// objects are what Helm makes of the chart, and a Gateway. The chart brings the
// definitions of the Gateway API's experimental channel, with a policy that protects
// them. If the sandbox has other definitions, the policy is left out.
func objects(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	text, err := render(ctx, c.Paths[helm], c.Paths[chart], !gatewayapi.IsIn(c))
	if err != nil {
		return nil, err
	}
	all, err := manifest.Decode(c.Paths[chart], text)
	if err != nil {
		return nil, err
	}
	own, err := manifest.Decode("gateway.yaml", gateway)
	if err != nil {
		return nil, err
	}
	all = append(all, addon.Namespace(Namespace))
	// The chart's objects name their namespaces.
	return []addon.Manifests{{Objects: all}, {Namespace: Namespace, Objects: own}}, nil
}

// render makes the chart's objects with its default values, but for the image, which
// is that of a release, and a webhook that tells Envoys their zone: there is one node.
func render(ctx context.Context, helm, chart string, policy bool) ([]byte, error) {
	cmd := exec.CommandContext(ctx, helm, "template", Name, chart,
		"--namespace", Namespace, "--include-crds",
		"--values", filepath.Join(chart, "values.tmpl.yaml"),
		"--set", "global.images.envoyGateway.image=docker.io/"+repository+":"+Version,
		"--set", "global.images.envoyGateway.pullPolicy=IfNotPresent",
		"--set", "topologyInjector.enabled=false",
		"--set", fmt.Sprintf("crds.gatewayAPI.safeUpgradePolicy.enabled=%t", policy))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("helm template %s: %w\n%s", chart, err, stderr.String())
	}
	return text, nil
}
