package cluster

import (
	"context"
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

// installed are the add-ons that the sandbox was brought up with, in their order.
func (s settings) installed() ([]addon.Addon, error) {
	with := make([]string, len(s.Addons))
	for i, a := range s.Addons {
		with[i] = a.Name
	}
	return addon.Select(addons.All(), with, true)
}

// paths are what an add-on has prepared.
func (s settings) paths(name string) addon.Paths {
	for _, a := range s.Addons {
		if a.Name == name {
			return a.Paths
		}
	}
	return nil
}

// install applies the manifests of all add-ons together, so that a change that one
// add-on makes to another's objects is in place before anything reads them, and returns
// them.
func (d *daemon) install(ctx context.Context, installed []addon.Addon) ([]addon.Manifests, error) {
	var all []addon.Manifests
	for _, a := range installed {
		if a.Manifests == nil {
			continue
		}
		d.events.status("reading the manifests of %s", a.Name)
		manifests, err := a.Manifests(ctx, &addon.Cluster{
			Paths:    d.settings.paths(a.Name),
			Deploy:   d.settings.Deploy,
			Kubectl:  d.settings.Program,
			Releases: "http://" + ReleasesHost,
			Before:   all,
		})
		if err == nil {
			all, err = addon.Combine(all, manifests, definedByOthers(installed, a.Name))
		}
		if err != nil {
			return nil, fmt.Errorf("manifests of the add-on %s: %w", a.Name, err)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	d.events.status("applying the manifests of the add-ons")
	apply, err := newApplier(d.config)
	if err != nil {
		return nil, err
	}
	if err := apply.apply(ctx, all); err != nil {
		return nil, err
	}
	for _, a := range installed {
		if a.Manifests != nil {
			d.said("applied: %s", a.Summary)
		}
	}
	return all, nil
}

// definedByOthers are the API groups that other add-ons than the named one define.
func definedByOthers(installed []addon.Addon, name string) []string {
	var groups []string
	for _, a := range installed {
		if a.Name != name {
			groups = append(groups, a.Defines...)
		}
	}
	return groups
}
