// Package httpstep is the kind of steps that make HTTP requests.
//
// A step is a request, which starts work, then polls; or polls alone. Its configuration is
// Config. Requests go through package outbound, to allowed hosts only; secrets come through
// package secret, which keeps them out of what people read. Expressions see answers as they
// are; an output that holds a secret is refused.
package httpstep

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/util/cache"
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
	// Proxy makes all requests; nil is none.
	Proxy *url.URL
	// SecretsNamespace is the one other namespace whose Secrets a preset may name.
	SecretsNamespace string
}

// Kind makes steps of the kind http.
type Kind struct {
	opts    Options
	problem error
	client  *outbound.Client
	objects *kube.Objects
	tokens  *cache.LRUExpireCache
	now     func() time.Time
	// decoders has an item for each answer whose JSON is held.
	decoders chan struct{}
}

// maxDecoders is how many answers are held as JSON at once: one of 1 MiB takes some twenty
// times that in memory, and all Rollouts may ask at the same time.
const maxDecoders = 2

// decoding waits for its turn to decode an answer that has arrived; the caller calls done
// when it needs the JSON no more. The wait does not end with the operation's time, so that no
// operation fails because of others.
func (k *Kind) decoding() (done func()) {
	k.decoders <- struct{}{}
	return func() { <-k.decoders }
}

// New returns the kind. It makes no request before the first step.
func New(opts Options) *Kind {
	hosts, err := outbound.ParseHosts(opts.AllowHosts)
	k := &Kind{opts: opts, objects: kube.NewObjects(opts.Connect), tokens: cache.NewLRUExpireCache(maxTokens), now: time.Now, decoders: make(chan struct{}, maxDecoders)}
	if err != nil {
		k.problem = fmt.Errorf("--allow-host: %w", err)
	}
	k.client = outbound.New(outbound.Options{Hosts: hosts, Addresses: opts.AllowAddresses, Proxy: opts.Proxy, UserAgent: "rollouts-plugin-step/" + opts.Version})
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
	s, err := parse(source, k.opts.SecretsNamespace)
	if err != nil {
		return nil, err
	}
	s.kind, s.hosts, s.atMostOnce = k, hosts, source.Settings.OnUnknown == steps.OnUnknownFail
	if err := s.checkPresetSecrets(source); err != nil {
		return nil, err
	}
	if err := s.checkHosts(); err != nil {
		return nil, err
	}
	return s, nil
}

// checkHosts returns an error if one of the step's requests goes to a host that is not
// allowed: a cancel would otherwise fail only when there is something to cancel. It does not
// know a host that an expression or a Secret says.
func (s *step) checkHosts() error {
	for _, c := range s.calls() {
		urls := c.urls()
		if c.joins() && urls[0].source != "" {
			urls = append(urls, text{path: c.path + ".url", source: strings.TrimSuffix(urls[0].source, "/") + c.own.url.source})
		}
		for _, u := range urls {
			if strings.Contains(u.source, "{{") {
				u.source = u.origin()
			}
			if u.source == "" {
				continue
			}
			if err := s.kind.client.Check(outbound.Request{URL: u.source, Hosts: s.hosts, HostsOnly: c.confined()}); err != nil {
				return fmt.Errorf("%s: %w", u.path, err)
			}
		}
	}
	return nil
}
