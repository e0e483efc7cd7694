package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
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
	options := steps.Options{
		Logger: logger,
		Events: steps.RolloutEvents{Events: rolloutsplugin.NewEvents(p.Connect, p.Name, logger)},
	}
	if problem != nil {
		options.Problem = fmt.Errorf("step plugin %s cannot work as argo-rollouts-config registers it: %w; correct its args there, and restart the controller", registered, problem)
		logger.Error("every step fails: the registration is wrong", "error", problem)
	} else {
		options.Kind = p.kind(r, logger)
		options.Presets = p.presets(r.Preset, logger)
	}
	logger.Info("starting", "version", p.Version, "commit", p.Commit, "kind", r.Kind, "preset", r.Preset.String())
	rolloutsplugin.ServeStep(steps.New(options), logger)
}

// kind returns the kind of a registration.
func (p program) kind(r registration.Registration, logger hclog.Logger) steps.Kind {
	options := kinds.For(r)
	options.Connect, options.Logger, options.Version = p.Connect, logger, p.Version
	return kinds.Named(p.kinds(options), r.Kind)
}

// presets returns the source of a registration's preset; nil without a preset.
func (p program) presets(preset registration.Preset, logger hclog.Logger) steps.PresetSource {
	switch {
	case preset.File != "":
		return presetsource.NewFile(preset.File, logger)
	case preset.IsSet():
		return presetsource.NewConfigMap(kube.NewObjects(p.Connect), preset.Namespace, preset.Name, logger)
	}
	return nil
}
