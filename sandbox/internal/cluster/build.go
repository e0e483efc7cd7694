package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// Build builds and downloads into the cache what Up needs with the same options,
// except this project's own programs. It returns the directory of the control plane's
// programs.
func Build(ctx context.Context, opts Options) (kubernetes string, err error) {
	defer opts.Progress.Done()
	selected, err := opts.complete()
	if err != nil {
		return "", err
	}
	entry, err := opts.ensureKubernetes(ctx)
	if err != nil {
		return "", err
	}
	for _, a := range selected {
		if _, err := a.Fetch(ctx, opts.host(Layout{}, a)); err != nil {
			return "", fmt.Errorf("add-on %s: %w", a.Name, err)
		}
	}
	return entry.Dir, nil
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
	prepared, err := a.Fetch(ctx, opts.host(Layout{}, a))
	if err != nil {
		return "", fmt.Errorf("add-on %s: %w", name, err)
	}
	var known []string
	for _, found := range slices.Sorted(maps.Keys(prepared.Paths)) {
		at := prepared.Paths[found]
		if _, err := os.Stat(at); err != nil {
			continue // made when a sandbox comes up
		}
		if found == path {
			return at, nil
		}
		known = append(known, found)
	}
	return "", fmt.Errorf("add-on %s: no %q in the cache; there is: %s", name, path, orNone(known))
}
