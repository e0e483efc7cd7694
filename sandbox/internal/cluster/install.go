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
// add-on makes to another's objects is in place before anything reads them.
func (d *daemon) install(ctx context.Context, installed []addon.Addon) error {
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
		if err != nil {
			return fmt.Errorf("manifests of the add-on %s: %w", a.Name, err)
		}
		all = append(all, manifests...)
	}
	if len(all) == 0 {
		return nil
	}
	if err := checkDistinct(all); err != nil {
		return err
	}
	d.events.status("applying the manifests of the add-ons")
	apply, err := newApplier(d.config)
	if err != nil {
		return err
	}
	if err := apply.apply(ctx, all); err != nil {
		return err
	}
	for _, a := range installed {
		if a.Manifests != nil {
			d.said("applied: %s", a.Summary)
		}
	}
	return nil
}

// checkDistinct refuses two objects of one kind and name: they are applied at the
// same time, and either might replace the other.
func checkDistinct(all []addon.Manifests) error {
	seen := make(map[string]bool)
	for _, m := range all {
		for _, o := range m.Objects {
			namespace := o.GetNamespace()
			if namespace == "" {
				namespace = m.Namespace
			}
			key := fmt.Sprintf("%s %s/%s", o.GroupVersionKind().GroupKind(), namespace, o.GetName())
			if seen[key] {
				return fmt.Errorf("two add-ons bring %s: leave one of them out of --with", key)
			}
			seen[key] = true
		}
	}
	return nil
}
