// Command rollouts-plugin-kedify is the Argo Rollouts traffic router plugin
// kedify/http. The controller runs it without a subcommand; `check` and
// `version` are for people.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/preflight"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

const name = "rollouts-plugin-kedify"

// Set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

func main() {
	err := command().Execute()
	// Of a failed check the report has said it all.
	if err != nil && !errors.Is(err, preflight.ErrFailed) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(preflight.ExitCode(err))
}

func command() *cobra.Command {
	var level, format string
	var options kedify.Options
	root := &cobra.Command{
		Use:   name,
		Short: "Argo Rollouts traffic router " + kedify.PluginName,
		Long: `The Argo Rollouts traffic router plugin ` + kedify.PluginName + `: it writes each canary weight to the
HTTPScaledObject a Rollout names, as the annotation http.kedify.io/weighted-backends.

The Argo Rollouts controller starts it; register it in the ConfigMap argo-rollouts-config.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := rolloutsplugin.NewLogger(os.Stderr, name, level, format)
			if err != nil {
				return err
			}
			if problems := validation.IsDNS1123Label(options.WatchNamespace); options.WatchNamespace != "" && len(problems) > 0 {
				return fmt.Errorf("--watch-namespace %q: want the name of one namespace: %s", options.WatchNamespace, strings.Join(problems, "; "))
			}
			if !rolloutsplugin.StartedByController() {
				_ = cmd.Usage()
				return errors.New("this is a plugin: the Argo Rollouts controller runs it (see `check` for a look at your set-up)")
			}
			config := func() (*rest.Config, error) { return kube.RESTConfig(name + "/" + version) }
			logger.Info("starting", "version", version, "commit", commit)
			rolloutsplugin.ServeTrafficRouter(kedify.New(config, logger, options), logger)
			return nil
		},
	}
	root.Flags().StringVar(&level, "log-level", "info", "least level logged: trace, debug, info, warn or error")
	root.Flags().StringVar(&format, "log-format", "json", "json (keeps its levels in the controller's log) or text")
	root.Flags().StringVar(&options.WatchNamespace, "watch-namespace", "", "the one namespace to watch, for a controller that runs with --namespaced (default: all)")
	root.Flags().BoolVar(&options.SelfHeal, "self-heal", true, "put back a split that something else has changed, and take off one whose Rollout is gone; false writes at the controller's calls alone")
	root.AddCommand(preflight.NewCommand(), &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), rolloutsplugin.Version(name, version, commit))
			return err
		},
	})
	return root
}
