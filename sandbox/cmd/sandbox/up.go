package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/envoy"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

const cacheUsage = "directory of the build cache (default: rollouts-sandbox in $XDG_CACHE_HOME or ~/.cache)"

// newProgress returns where commands report what they are doing: beside, not
// in, the output that a program may read.
func newProgress() *progress.Printer { return progress.New(os.Stderr) }

// upFlags are the flags of the commands that bring a sandbox up.
type upFlags struct {
	options  cluster.Options
	releases []string
}

func (f *upFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.options.Plugin, "plugin", "", "the plugin's binary (default: built from the repository)")
	flags.StringVar(&f.options.InterceptorProgram, "interceptor-binary", "", "the interceptor's binary (default: built from the repository)")
	flags.StringVar(&f.options.Envoy, "envoy", "", "the Envoy behind the image envoyproxy/envoy (default: what \"sandbox envoy\" has downloaded, or $ENVOY)")
	flags.StringVar(&f.options.Deploy, "deploy", "", "directory with the manifests to apply (default: deploy/ of the repository)")
	flags.StringVar(&f.options.Cache, "cache", "", cacheUsage)
	flags.StringArrayVar(&f.releases, "release", nil, "a further file to serve at http://"+cluster.ReleasesHost+"/, as NAME=PATH; may be repeated")
}

// resolve completes the options from the flags.
func (f *upFlags) resolve(ctx context.Context, w *which) (cluster.Options, error) {
	opts := f.options
	opts.Name, opts.State = w.name, w.state
	if w.state != "" && w.name == cluster.DefaultName {
		opts.Name = "" // the directory gives the name
	}
	opts.Releases = make(map[string]string)
	for _, release := range f.releases {
		name, path, ok := strings.Cut(release, "=")
		if !ok || name == "" || path == "" {
			return opts, fmt.Errorf("--release %q: must be NAME=PATH", release)
		}
		opts.Releases[name] = path
	}
	program, err := os.Executable()
	if err != nil {
		return opts, err
	}
	opts.Program = program
	opts.Progress = newProgress()
	if opts.Interceptor && opts.Envoy == "" {
		// kedify-proxy, which comes next, runs it.
		if opts.Envoy, err = envoy.Ensure(ctx, envoy.Options{Cache: opts.Cache, Progress: opts.Progress}); err != nil {
			return opts, err
		}
	}
	return opts, nil
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
			opts, err := f.resolve(cmd.Context(), w)
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
	cmd.Flags().BoolVar(&f.options.Bare, "bare", false, "only the cluster, without Argo Rollouts, the plugin and the interceptor")
	cmd.Flags().BoolVar(&f.options.Interceptor, "interceptor", false, "install the interceptor, from deploy/interceptor")
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
