// Package kinds brings together all kinds of steps, whose packages do not know one another.
package kinds

import (
	"encoding/json"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/httpstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/jobstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/resourcestep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/rolloutsstep"
)

// Options are what the kinds need.
type Options struct {
	registration.Registration
	// Connect returns the client configuration. It makes no request.
	Connect func() (*rest.Config, error)
	Logger  hclog.Logger
	// Version is the program's.
	Version string
	// PresetSection returns what a preset gives steps of a kind, as presetsource.Source does;
	// nil for a registration with a kind.
	PresetSection func(name, kind string) (section json.RawMessage, known bool)
}

// All returns a Kind for each kind of step. They make no request before the first step.
func All(o Options) []steps.Kind {
	var presets func(name string) (json.RawMessage, bool)
	if o.PresetSection != nil {
		presets = func(name string) (json.RawMessage, bool) { return o.PresetSection(name, "rollouts") }
	}
	return []steps.Kind{
		httpstep.New(httpstep.Options{
			Connect: o.Connect, Logger: o.Logger, Version: o.Version,
			AllowHosts: o.AllowHosts, AllowAddresses: o.AllowAddresses, Proxy: o.EgressProxy, SecretsNamespace: o.SecretsNamespace,
		}),
		jobstep.New(jobstep.Options{Connect: o.Connect, Logger: o.Logger}),
		resourcestep.New(resourcestep.Options{Connect: o.Connect, Logger: o.Logger, Allowed: o.AllowResources}),
		rolloutsstep.New(rolloutsstep.Options{
			Connect: o.Connect, Logger: o.Logger, WatchNamespace: o.WatchNamespace, Namespaces: o.AllowNamespaces, Presets: presets,
			RegionOptions: rolloutsstep.RegionOptions{
				AllowHosts: o.AllowHosts, AllowAddresses: o.AllowAddresses, Proxy: o.EgressProxy, SecretsNamespace: o.SecretsNamespace, Version: o.Version,
			},
		}),
	}
}

// Named returns the kind with a name, or nil.
func Named(all []steps.Kind, name string) steps.Kind {
	for _, kind := range all {
		if kind.Name() == name {
			return kind
		}
	}
	return nil
}

// Names returns the names of kinds, in their order.
func Names(all []steps.Kind) []string {
	var names []string
	for _, kind := range all {
		names = append(names, kind.Name())
	}
	return names
}
