package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// complete finds the repository if the options name none, and returns the add-ons that
// they ask for.
func (o *Options) complete() ([]addon.Addon, error) {
	if o.Repository == "" {
		var err error
		if o.Repository, err = build.FindRepository(); err != nil {
			return nil, err
		}
	}
	return o.selected()
}

// selected are the add-ons that the options ask for. It is an error if the options
// give a version or a program that belongs to none of them.
func (o Options) selected() ([]addon.Addon, error) {
	list, err := addon.Select(addons.All(), o.With, o.Bare)
	if err != nil {
		return nil, err
	}
	var versioned, programs []string
	for _, a := range list {
		if a.Version != "" {
			versioned = append(versioned, a.Name)
		}
		for _, p := range a.Programs {
			programs = append(programs, p.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Versions)) {
		if !slices.Contains(versioned, name) {
			return nil, fmt.Errorf("a version of %s is asked for: this sandbox has versions of %s only", name, orNone(versioned))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Programs)) {
		if !slices.Contains(programs, name) {
			return nil, fmt.Errorf("a program %s is given: this sandbox takes %s only", name, orNone(programs))
		}
		if _, err := os.Stat(o.Programs[name]); err != nil {
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
		// Processes inside the sandbox have another working directory.
		path, err := filepath.Abs(o.Programs[name])
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
		o.Programs[name] = path
	}
	return list, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// build puts the sandbox command into its place, tries with it whether a sandbox can be
// had on this machine, and only then begins what takes long.
func (s *Sandbox) build(ctx context.Context, opts Options) (*build.Entry, error) {
	l := s.layout
	var err error
	if opts.Program != "" {
		err = build.CopyFile(opts.Program, l.Program(), 0o755)
	} else {
		err = build.Program(ctx, filepath.Join(opts.Repository, "sandbox"), "./cmd/sandbox", l.Program(), opts.Progress)
	}
	if err != nil {
		return nil, err
	}
	if err := s.try(ctx, opts.Cache); err != nil {
		return nil, err
	}
	return opts.ensureKubernetes(ctx)
}

// prepare fills the state directory with all else that the daemon needs.
func (s *Sandbox) prepare(ctx context.Context, opts Options, kubernetes *build.Entry, selected []addon.Addon) error {
	l := s.layout
	if err := os.MkdirAll(l.Logs(), 0o755); err != nil {
		return err
	}
	program := kubernetes.Program(kubernetesProgram)
	if err := os.Symlink(program, filepath.Join(l.Bin(), "kubectl")); err != nil {
		return err
	}
	prepared, err := s.prepareAddons(ctx, opts, selected, program)
	if err != nil {
		return err
	}
	if err := writePKI(l, time.Now()); err != nil {
		return fmt.Errorf("making the cluster's keys: %w", err)
	}
	if err := writeKubeconfigs(l); err != nil {
		return err
	}
	if err := writeAuditPolicy(l); err != nil {
		return err
	}
	deploy := opts.Deploy
	if deploy == "" {
		deploy = filepath.Join(opts.Repository, "deploy")
	}
	if deploy, err = filepath.Abs(deploy); err != nil {
		return err
	}
	name := opts.Name
	if name == "" {
		name = filepath.Base(l.Dir)
	}
	return settings{Name: name, Program: program, Kubernetes: kubernetes.Version, Deploy: deploy, Addons: prepared}.save(l)
}

// prepareAddons prepares each add-on, and puts its commands and releases into
// their places.
func (s *Sandbox) prepareAddons(ctx context.Context, opts Options, selected []addon.Addon, kubernetes string) ([]preparedAddon, error) {
	l := s.layout
	releases := maps.Clone(opts.Releases)
	if releases == nil {
		releases = make(map[string]string)
	}
	var all []preparedAddon
	for _, a := range selected {
		host := opts.host(l, a)
		host.Kubernetes = kubernetes
		prepared, err := a.Ensure(ctx, host)
		if err != nil {
			return nil, fmt.Errorf("add-on %s: %w", a.Name, err)
		}
		for _, name := range a.Commands {
			if err := os.Symlink(prepared.Paths[name], filepath.Join(l.Bin(), name)); err != nil {
				return nil, err
			}
		}
		for file, name := range a.Releases {
			releases[file] = prepared.Paths[name]
		}
		all = append(all, preparedAddon{Name: a.Name, Version: prepared.Version, Paths: prepared.Paths, Images: prepared.Images})
	}
	return all, publish(l, releases)
}

// host is this machine as an add-on sees it.
func (o Options) host(l Layout, a addon.Addon) addon.Host {
	return addon.Host{
		Repository: o.Repository, Cache: o.Cache, Dir: filepath.Join(l.programs(), a.Name),
		Version: o.Versions[a.Name], Programs: o.Programs, Progress: o.Progress,
	}
}
