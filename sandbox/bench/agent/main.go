// Command bench-agent measures the agent, each time beside a baseline. It prints figures,
// ratios and bars, and fails for none of them: `make bench-agent` builds what it needs and
// runs it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/agent"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/demoapp"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// options are the flags.
type options struct {
	agent, barecache, crd, configMap string
}

func main() {
	var o options
	program := gauge.Program{
		Name:      "bench-agent",
		Parts:     []string{"start", "memory", "resync", "wire"},
		With:      []string{keda.DefinitionName},
		Alone:     "wire",
		AloneWith: []string{agent.Name, contour.Name, demoapp.Addon().Name},
		Measure:   func(ctx context.Context, parts gauge.Parts) error { return measure(ctx, &o, parts) },
	}
	program.Need(&o.agent, "agent", "the agent as released")
	program.Need(&o.barecache, "barecache", "the bare cache (bench/barecache)")
	program.Need(&o.crd, "crd", "the HTTPScaledObject CRD")
	program.Need(&o.configMap, "configmap", "the ConfigMap with the manifests of kedify-proxy")
	os.Exit(program.Run())
}

// world is an API server with the ScaledObjects.
type world struct {
	*options
	*gauge.Cluster
}

// measure is run inside a sandbox of its own.
func measure(ctx context.Context, o *options, parts gauge.Parts) error {
	connected, err := gauge.Connect(ctx, o.crd)
	if err != nil {
		return err
	}
	w := &world{options: o, Cluster: connected}
	if parts.Has("wire") {
		return w.wire(ctx)
	}
	// They would process every object, too, and collect those whose owners are not there.
	if err := gauge.Stop(ctx, cluster.ControllerManager, cluster.Scheduler, cluster.Node); err != nil {
		return err
	}
	if err := w.makeScaledObjects(ctx); err != nil {
		return err
	}
	// The other parts need what the first makes.
	if err := w.start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if !parts.Has("memory", "resync") {
		return nil
	}
	return w.again(ctx)
}
