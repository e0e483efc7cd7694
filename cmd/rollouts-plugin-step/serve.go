package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/presetsource"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
)

// serve serves the steps of a registration to the controller. If the registration is
// wrong, each step fails with an error that says so.
func (p program) serve(path string, args []string) {
	known := kinds.Names(p.kinds(kinds.Options{Version: p.Version}))
	r, problem := registration.Parse(args, known)
	registered := cmp.Or(r.Name, rolloutsplugin.RegisteredAs(path), p.Name)
	logger, err := rolloutsplugin.NewLogger(os.Stderr, registered, r.LogLevel, r.LogFormat)
	if err != nil { // problem says so too
		logger, _ = rolloutsplugin.NewLogger(os.Stderr, registered, "info", "json")
	}
	events := rolloutsplugin.NewEvents(p.Connect, p.Name, logger)
	options := steps.Options{Logger: logger, Events: steps.RolloutEvents{Events: events}}
	if problem != nil {
		options.Problem = fmt.Errorf("step plugin %s cannot work as argo-rollouts-config registers it: %w; correct its args there, and restart the controller", registered, problem)
		logger.Error("every step fails: the registration is wrong", "error", problem)
	} else {
		p.configure(&options, r, events)
	}
	logger.Info("starting", "version", p.Version, "commit", p.Commit, "kind", r.Kind, "preset", r.Preset.Name)
	plugin := steps.New(options)
	rolloutsplugin.ServeStep(plugin, func() {
		plugin.Close()
		ctx, cancel := context.WithTimeout(context.Background(), lastEvents)
		defer cancel()
		events.Flush(ctx)
	}, logger)
}

// lastEvents is how long the end of the process waits for the Events about what it cuts off:
// the controller waits two seconds.
const lastEvents = 1500 * time.Millisecond

// configure sets what the steps of a registration are read with.
func (p program) configure(options *steps.Options, r registration.Registration, events *rolloutsplugin.Events) {
	var reader steps.Reader
	start := func() {}
	source := presetsource.Options{
		Connect: p.Connect, Namespace: r.Preset.Namespace, Name: r.Preset.Name, Events: events, Logger: options.Logger,
		Check: func(preset *steps.Preset) error { return reader.Check(preset) }, //nolint:gocritic // reader is set below
	}
	of := kinds.Options{Registration: r, Connect: p.Connect, Logger: options.Logger, Version: p.Version}
	if r.Kind != "" {
		options.Kind = kinds.Named(p.kinds(of), r.Kind)
		if r.Preset.Name != "" {
			options.Presets = presetsource.New(source)
		}
	} else {
		source.Namespace = cmp.Or(r.PresetsNamespace, controllerNamespace())
		presets := presetsource.New(source)
		of.PresetSection = presets.Section
		start = func() { go presets.Start(context.Background()) }
		options.Presets, options.Kinds, options.AllowKinds = presets, p.kinds(of), r.AllowKinds
	}
	reader = steps.Reader{Kind: options.Kind, Kinds: options.Kinds}
	start()
}

// controllerNamespace returns the namespace of the pod: it is where Argo Rollouts looks for
// argo-rollouts-config (utils/defaults of argo-rollouts v1.10.1).
func controllerNamespace() string {
	text, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return cmp.Or(os.Getenv("POD_NAMESPACE"), strings.TrimSpace(string(text)), "argo-rollouts")
}
