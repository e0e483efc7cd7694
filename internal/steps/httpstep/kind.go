// Package httpstep is the kind of steps that make HTTP requests.
//
// A step is a request, which starts work, then polls; or polls alone. Its configuration is
// Config. Requests go through package outbound, to allowed hosts only; secrets come through
// package secret, which keeps them out of what the step says. Secrets are removed from an
// answer before an expression sees it, so that an expression cannot take a secret apart.
package httpstep

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

// Options are what the kind needs of a registration.
type Options struct {
	// Connect returns the client configuration. It makes no request.
	Connect func() (*rest.Config, error)
	Logger  hclog.Logger
	// Version is the program's.
	Version string
	// AllowHosts and AllowAddresses are where requests may go.
	AllowHosts     []string
	AllowAddresses []netip.Prefix
	// SecretsNamespace is the one other namespace whose Secrets a preset may name.
	SecretsNamespace string
}

// Kind makes steps of the kind http.
type Kind struct {
	opts    Options
	problem error
	client  *outbound.Client
	objects *kube.Objects
	tokens  tokens
	now     func() time.Time
	// reading has an item for each answer that is being read.
	reading chan struct{}
}

// readers is how many answers are read at once: one of 1 MiB takes some twenty times that in
// memory, and all Rollouts may ask at the same time.
const readers = 2

// read waits for its turn to read an answer that has arrived; the caller calls done after
// reading it. The wait does not end with the operation's time, so that no operation fails
// because of others.
func (k *Kind) read() (done func()) {
	k.reading <- struct{}{}
	return func() { <-k.reading }
}

// New returns the kind. It makes no request before the first step.
func New(opts Options) *Kind {
	hosts, err := outbound.ParseHosts(opts.AllowHosts)
	k := &Kind{opts: opts, objects: kube.NewObjects(opts.Connect), now: time.Now, reading: make(chan struct{}, readers)}
	if err != nil {
		k.problem = fmt.Errorf("--allow-host: %w", err)
	}
	k.client = outbound.New(outbound.Options{Hosts: hosts, Addresses: opts.AllowAddresses, UserAgent: "rollouts-plugin-step/" + opts.Version})
	return k
}

// Name is the first argument of a registration.
func (k *Kind) Name() string { return "http" }

// Parse reads a configuration.
func (k *Kind) Parse(source steps.Source) (steps.Step, error) {
	if k.problem != nil {
		return nil, k.problem
	}
	hosts, err := outbound.ParseHosts(source.PresetHosts)
	if err != nil {
		return nil, fmt.Errorf("hosts of the preset: %w", err)
	}
	s, err := parse(source.Config, k.opts.SecretsNamespace)
	if err != nil {
		return nil, err
	}
	s.kind, s.hosts = k, hosts
	if err := s.checkPresetSecrets(source); err != nil {
		return nil, err
	}
	if err := s.checkHosts(); err != nil {
		return nil, err
	}
	return s, nil
}

// checkHosts returns an error if one of the step's requests goes to a host that is not
// allowed: a cancel would otherwise fail only when there is something to cancel.
func (s *step) checkHosts() error {
	for _, c := range s.calls() {
		for _, o := range c.origins {
			if err := s.kind.client.Check(outbound.Request{URL: o.url, Hosts: s.hosts, HostsOnly: c.confined()}); err != nil {
				return fmt.Errorf("%s: %w", o.path, err)
			}
		}
	}
	return nil
}
