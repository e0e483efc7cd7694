// Package kinds brings together all kinds of steps, whose packages do not know one another.
package kinds

import (
	"net/netip"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/httpstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/jobstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/rolloutsstep"
)

// Options are what the kinds need of a registration.
type Options struct {
	// Connect returns the client configuration. It makes no request.
	Connect func() (*rest.Config, error)
	Logger  hclog.Logger
	// Version is the program's.
	Version string
	// AllowHosts and AllowAddresses are where requests may go.
	AllowHosts     []string
	AllowAddresses []netip.Prefix
	// SecretsNamespace is the one other namespace of which a preset may name Secrets.
	SecretsNamespace string
	// WatchNamespace is the one namespace to watch; all of them when it is empty.
	WatchNamespace string
	// AllowNamespaces are those whose Rollouts a Rollout of another namespace may wait for;
	// "*" is all of them.
	AllowNamespaces []string
}

// For returns the options that a registration sets.
func For(r registration.Registration) Options {
	return Options{
		AllowHosts: r.AllowHosts, AllowAddresses: r.AllowAddresses, SecretsNamespace: r.SecretsNamespace,
		WatchNamespace: r.WatchNamespace, AllowNamespaces: r.AllowNamespaces,
	}
}

// All returns a Kind for each kind of step. They make no request before the first step.
func All(o Options) []steps.Kind {
	return []steps.Kind{
		httpstep.New(httpstep.Options{
			Connect: o.Connect, Logger: o.Logger, Version: o.Version,
			AllowHosts: o.AllowHosts, AllowAddresses: o.AllowAddresses, SecretsNamespace: o.SecretsNamespace,
		}),
		jobstep.New(jobstep.Options{Connect: o.Connect, Logger: o.Logger}),
		rolloutsstep.New(rolloutsstep.Options{Connect: o.Connect, Logger: o.Logger, WatchNamespace: o.WatchNamespace, Namespaces: o.AllowNamespaces}),
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
