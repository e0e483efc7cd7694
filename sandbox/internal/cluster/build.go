package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// Built is what Build has put into the cache.
type Built struct {
	// Kubernetes is the directory of the control plane's programs.
	Kubernetes string
	// Addons are the paths that each add-on has prepared, by its name.
	Addons map[string]addon.Paths
}

// Build builds and downloads into the cache what Up needs with the same options,
// except this project's own programs.
func Build(ctx context.Context, opts Options) (*Built, error) {
	defer opts.Progress.Done()
	selected, err := opts.complete()
	if err != nil {
		return nil, err
	}
	kubernetes, err := opts.ensureKubernetes(ctx)
	if err != nil {
		return nil, err
	}
	built := &Built{Kubernetes: kubernetes.Dir, Addons: make(map[string]addon.Paths)}
	for _, a := range selected {
		if a.Prepare == nil {
			continue
		}
		host := opts.host(Layout{}, a)
		host.UpstreamOnly = true
		prepared, err := a.Prepare(ctx, host)
		if err != nil {
			return nil, fmt.Errorf("add-on %s: %w", a.Name, err)
		}
		built.Addons[a.Name] = prepared.Paths
	}
	return built, nil
}

func (o Options) ensureKubernetes(ctx context.Context) (*build.Entry, error) {
	source, err := kubernetesSource(o.Repository, o.Kubernetes)
	if err != nil {
		return nil, err
	}
	return build.Ensure(ctx, source, o.Cache, o.Progress)
}

// AddonPath builds or downloads what an add-on needs, and returns the add-on's path
// of the given name. If there is none, the error lists the names that there are.
func AddonPath(ctx context.Context, opts Options, name, path string) (string, error) {
	defer opts.Progress.Done()
	opts.With, opts.Bare = []string{name}, true
	selected, err := opts.complete()
	if err != nil {
		return "", err
	}
	a := selected[len(selected)-1] // the add-ons that it needs come before it
	var prepared addon.Prepared
	if a.Prepare != nil {
		host := opts.host(Layout{}, a)
		host.UpstreamOnly = true
		if prepared, err = a.Prepare(ctx, host); err != nil {
			return "", fmt.Errorf("add-on %s: %w", name, err)
		}
	}
	var known []string
	for _, found := range slices.Sorted(maps.Keys(prepared.Paths)) {
		at := prepared.Paths[found]
		if _, err := os.Stat(at); err != nil {
			continue // this project's own program, which is in a sandbox's state directory
		}
		if found == path {
			return at, nil
		}
		known = append(known, found)
	}
	return "", fmt.Errorf("add-on %s: no %q in the cache; there is: %s", name, path, orNone(known))
}
