// Command bench-agent measures the agent, each time beside a baseline. It prints figures,
// ratios and bars, and fails for none of them: `make bench-agent` builds what it needs and
// runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/agent"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/demoapp"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

const (
	startPart  = "start"
	memoryPart = "memory"
	resyncPart = "resync"
	wirePart   = "wire"
)

// options are the flags.
type options struct {
	agent, barecache, crd, configMap string
}

func main() {
	var o options
	program := gauge.Program{
		Name:    "bench-agent",
		Parts:   []string{startPart, memoryPart, resyncPart, wirePart},
		Enter:   enter,
		Measure: func(ctx context.Context, parts gauge.Parts) error { return measure(ctx, &o, parts) },
	}
	program.Need(&o.agent, "agent", "the agent as released")
	program.Need(&o.barecache, "barecache", "the bare cache (bench/barecache)")
	program.Need(&o.crd, "crd", "the HTTPScaledObject CRD")
	program.Need(&o.configMap, "configmap", "the ConfigMap with the manifests of kedify-proxy")
	os.Exit(program.Run())
}

// enter runs the parts in sandboxes of their own: KEDA, Contour and pods are in that of wire
// alone, as they would take processor time from the others.
func enter(ctx context.Context, parts gauge.Parts) error {
	with := func(parts gauge.Parts) []string { return append(slices.Clone(os.Args[1:]), "-parts", parts.String()) }
	bare := slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return part == wirePart })
	if len(bare) > 0 {
		if err := gauge.EnterWith(ctx, with(bare), keda.DefinitionName); err != nil {
			return err
		}
	}
	if !parts.Has(wirePart) {
		return nil
	}
	return gauge.EnterWith(ctx, with(gauge.Parts{wirePart}), agent.Name, contour.Name, demoapp.Addon().Name)
}

// world is an API server with the ScaledObjects.
type world struct {
	*options
	config *rest.Config
	client dynamic.Interface
	agents int // that have been started
}

// measure is run inside a sandbox of its own.
func measure(ctx context.Context, o *options, parts gauge.Parts) error {
	began := time.Now()
	config, client, err := gauge.Connect(ctx, o.crd)
	if err != nil {
		return err
	}
	w := &world{options: o, config: config, client: client}
	if parts.Has(wirePart) {
		return w.wire(ctx)
	}
	// They would process every object, too, and collect those whose owners are not there.
	for _, component := range []string{cluster.ControllerManager, cluster.Scheduler, cluster.Node} {
		if err := cluster.Component(ctx, "stop", component); err != nil {
			return err
		}
	}
	if err := w.makeScaledObjects(ctx); err != nil {
		return err
	}
	// The other parts need what the first makes.
	if err := w.start(ctx); err != nil {
		return fmt.Errorf("%s: %w", startPart, err)
	}
	if parts.Has(memoryPart, resyncPart) {
		if err := w.again(ctx); err != nil {
			return fmt.Errorf("%s, %s: %w", memoryPart, resyncPart, err)
		}
	}
	gauge.Say("done in %s", time.Since(began).Round(time.Second))
	return nil
}
