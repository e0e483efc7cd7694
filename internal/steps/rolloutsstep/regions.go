package rolloutsstep

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

const (
	// regionWait bounds how long a check waits for a region that has not answered yet: an
	// operation has 20 s in all.
	regionWait = 5 * time.Second
	// regionIdle is how long a region's watch goes on that no step asks for. It is longer than
	// the interval of a step: for a step that begins the watch anew each time, no region would
	// ever be away for a minute.
	regionIdle = 24 * time.Hour
)

// Cluster is a cluster with Rollouts that the step waits for.
type Cluster struct {
	// Name names the cluster in messages.
	//
	// Required.
	Name string `json:"name"`
	// Secret is a Secret of the namespace of `--secrets-namespace`: a kubeconfig under the key
	// `kubeconfig` or `value`, with its certificates and its token inline, or a cluster of Argo
	// CD. `--allow-host` or the preset's `hosts` have to allow its host.
	//
	// Required.
	Secret string `json:"secret"`
}

// RegionOptions say how other clusters are reached.
type RegionOptions struct {
	// AllowHosts and AllowAddresses are where connections may go, besides the hosts of a preset.
	AllowHosts     []string
	AllowAddresses []netip.Prefix
	// Proxy makes all connections; nil is none.
	Proxy *url.URL
	// SecretsNamespace has the Secrets with the credentials.
	SecretsNamespace string
	// Version is the program's.
	Version string
}

// regionView is what is known of a region's Rollouts.
type regionView struct {
	Name string
	// Rollouts are those of the namespaces that were asked for, as they were last seen: what was
	// seen before an outage is not forgotten.
	Rollouts []*kube.Summary[Rollout]
	// Unreachable is why the region does not answer now, in words that follow its name and a
	// colon; empty if it answers.
	Unreachable string
	// Since is since when it has not answered.
	Since time.Time
	// Failures are the failures that the watches have seen; nil for none.
	Failures *failures
	// images returns the images of a ReplicaSet's containers, by their names: those of a Rollout
	// with a workloadRef are not in the Rollout.
	images func(ctx context.Context, namespace, replicaSet string) (map[string]string, error)
}

// regions knows the Rollouts of other clusters from one watch for each, which all steps of the
// process share. It makes no request before the first view, and none for a view while the
// watches run. A region that no step asks for is forgotten after a while.
type regions struct {
	opts    Options
	client  *outbound.Client
	problem error
	now     func() time.Time
	// wait and idle are regionWait and regionIdle; tests shorten them.
	wait, idle time.Duration

	mu     sync.Mutex
	known  map[regionKey]*region
	sweeps *time.Timer
}

// regionKey tells regions apart. The hosts are those of the preset: who names a Secret must not
// reach by it what another preset allows.
type regionKey struct{ secret, hosts string }

func newRegions(opts Options) *regions {
	hosts, err := outbound.ParseHosts(opts.AllowHosts)
	r := &regions{opts: opts, now: time.Now, wait: regionWait, idle: regionIdle, known: map[regionKey]*region{}}
	if err != nil {
		r.problem = fmt.Errorf("--allow-host: %w", err)
	}
	r.client = outbound.New(outbound.Options{Hosts: hosts, Addresses: opts.AllowAddresses, Proxy: opts.Proxy})
	return r
}

// close ends the watches.
func (r *regions) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sweeps != nil {
		r.sweeps.Stop()
	}
	for _, of := range r.known {
		of.close()
	}
	clear(r.known)
}

// view returns what is known of the Rollouts of some namespaces of a cluster. It begins the
// watch unless it runs, and then waits some seconds for it.
func (r *regions) view(ctx context.Context, c Cluster, hosts, namespaces []string) regionView {
	of, err := r.of(c.Secret, hosts)
	if err != nil {
		return regionView{Name: c.Name, Unreachable: err.Error(), Since: r.now()}
	}
	v := of.view(ctx, namespaces)
	v.Name = c.Name
	return v
}

// of returns a region, and keeps it from being forgotten.
func (r *regions) of(secretName string, hosts []string) (*region, error) {
	allowed, err := outbound.ParseHosts(hosts)
	switch {
	case r.problem != nil:
		return nil, r.problem
	case err != nil:
		return nil, fmt.Errorf("hosts of the preset: %w", err)
	case r.opts.SecretsNamespace == "":
		return nil, fmt.Errorf("the plugin is registered without --secrets-namespace, the namespace of Secret %s", secretName)
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(hosts)))
	key := regionKey{secretName, strings.Join(sorted, ",")}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.known[key]
	if of == nil {
		of = newRegion(r, secretName, allowed)
		r.known[key] = of
	}
	of.use()
	if r.sweeps == nil {
		r.sweeps = time.AfterFunc(r.idle, r.sweep)
	}
	return of, nil
}

// sweep forgets what no step has asked for.
func (r *regions) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.now().Add(-r.idle)
	for key, of := range r.known {
		if of.unusedSince(before) {
			of.close()
			delete(r.known, key)
		}
	}
	r.sweeps = nil
	if len(r.known) > 0 {
		r.sweeps = time.AfterFunc(r.idle, r.sweep)
	}
}
