package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

const cacheUsage = "directory of the build cache (default: rollouts-sandbox in $XDG_CACHE_HOME or ~/.cache)"

// newProgress returns the printer for the commands' progress. It writes to stderr,
// as a program may read stdout.
func newProgress() *progress.Printer { return progress.New(os.Stderr) }

// upFlags are the flags of the commands that bring a sandbox up, or build what a
// sandbox needs.
type upFlags struct {
	options            cluster.Options
	programs, releases []string
	versions           map[string]*string
}

// registerContent registers the flags that say what is in a sandbox.
func (f *upFlags) registerContent(cmd *cobra.Command) {
	flags := cmd.Flags()
	all := addons.All()
	flags.StringSliceVar(&f.options.With, "with", nil, "add-ons to have, with what they need:\n"+addonList(all))
	flags.BoolVar(&f.options.Bare, "bare", false, "without the add-ons that are there by default")
	flags.StringVar(&f.options.Kubernetes, "kubernetes", "", "another minor release of Kubernetes, such as v1.35")
	flags.StringArrayVar(&f.programs, "program", nil, "a program to take instead of building it, as NAME=PATH; may be repeated; NAME is "+strings.Join(programNames(all), ", "))
	f.registerReleases(cmd)
}

// registerReleases registers the flags that choose the releases of add-ons, and the
// cache.
func (f *upFlags) registerReleases(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.options.Cache, "cache", "", cacheUsage)
	f.versions = make(map[string]*string)
	for _, a := range addons.All() {
		if a.Version != "" {
			f.versions[a.Name] = flags.String(a.Name, "", "another release of the add-on than "+a.Version+"; v1.2 is the latest of these")
		}
	}
}

// register registers the flags of a command that brings a sandbox up.
func (f *upFlags) register(cmd *cobra.Command) {
	f.registerContent(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.options.Deploy, "deploy", "", "directory with the manifests to apply (default: deploy/ of the repository)")
	flags.StringArrayVar(&f.releases, "release", nil, "a further file to serve at http://"+cluster.ReleasesHost+"/, as NAME=PATH; may be repeated")
}

// addonList describes the add-ons, a line each.
func addonList(all []addon.Addon) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, a := range all {
		note := a.Summary
		if a.Default {
			note += " (by default)"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\n", a.Name, note)
	}
	_ = table.Flush()
	return strings.TrimRight(text.String(), "\n")
}

func programNames(all []addon.Addon) []string {
	var names []string
	for _, a := range all {
		for _, p := range a.Programs {
			names = append(names, p.Name)
		}
	}
	return names
}

// content completes the options that say what is in a sandbox.
func (f *upFlags) content() (cluster.Options, error) {
	opts := f.options
	opts.Progress = newProgress()
	opts.Versions = make(map[string]string)
	for name, version := range f.versions {
		if *version != "" {
			opts.Versions[name] = *version
		}
	}
	programs, err := pairs("program", f.programs)
	opts.Programs = programs
	return opts, err
}

// pairs reads the values of a flag that takes NAME=PATH.
func pairs(flag string, values []string) (map[string]string, error) {
	all := make(map[string]string)
	for _, value := range values {
		name, path, ok := strings.Cut(value, "=")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("--%s %q: must be NAME=PATH", flag, value)
		}
		all[name] = path
	}
	return all, nil
}

// resolve completes the options from the flags.
func (f *upFlags) resolve(w *which) (cluster.Options, error) {
	opts, err := f.content()
	if err != nil {
		return opts, err
	}
	opts.Name, opts.State = w.name, w.state
	if w.state != "" && w.name == cluster.DefaultName {
		opts.Name = "" // the directory gives the name
	}
	if opts.Releases, err = pairs("release", f.releases); err != nil {
		return opts, err
	}
	opts.Program, err = os.Executable()
	return opts, err
}

func upCommand(w *which) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring a sandbox up",
		Long: `Bring a sandbox up and return when it is ready. What it needs is built first,
which takes long the first time only. Ctrl-C takes down what is up so far.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := f.resolve(w)
			if err != nil {
				return err
			}
			start := time.Now()
			s, err := cluster.Up(cmd.Context(), opts)
			if errors.Is(err, cluster.ErrRunning) {
				return fmt.Errorf("%w: see `sandbox status%s`, or take it down with `sandbox down%[2]s`", err, w.flag())
			}
			if err != nil {
				return err
			}
			opts.Progress.Say("the sandbox is up after %s", progress.Seconds(time.Since(start)))
			opts.Progress.Say("%s", entering(w, s.Layout()))
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.options.KeepFailed, "keep", false, "keep a sandbox that does not come up, to look at its logs")
	return cmd
}

func downCommand(w *which) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Take a sandbox down and remove its state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := cluster.NewLayout(w.name, w.state)
			if err != nil {
				return err
			}
			found, err := cluster.Down(w.name, w.state)
			if err != nil {
				return err
			}
			if found {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the sandbox in %s is down\n", l.Dir)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "there is no sandbox in %s\n", l.Dir)
			}
			return err
		},
	}
}

// flag returns what to add to a command line to mean the same sandbox.
func (w *which) flag() string {
	switch {
	case w.state != "":
		return " --state " + w.state
	case w.name != cluster.DefaultName:
		return " --name " + w.name
	}
	return ""
}

// entering says how to use a sandbox.
func entering(w *which, l cluster.Layout) string {
	return fmt.Sprintf(`  enter:        sandbox shell%[1]s
  one command:  sandbox exec%[1]s -- kubectl get pods -A
  logs:         %[2]s
  take down:    sandbox down%[1]s`, w.flag(), l.Logs())
}
