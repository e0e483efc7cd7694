// Command rollouts-plugin-kedify is the Argo Rollouts traffic router plugin
// kedify/http. The controller runs it without a subcommand; `version` is for people.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

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
	if err := command().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
}

func command() *cobra.Command {
	root := rolloutsplugin.TrafficRouter{
		Program: rolloutsplugin.Program{
			Name: name, Version: version, Commit: commit,
			Short: "Argo Rollouts traffic router " + kedify.PluginName,
			Long: `The Argo Rollouts traffic router plugin ` + kedify.PluginName + `: it writes each canary weight to the
HTTPScaledObject a Rollout names, as the annotation http.kedify.io/weighted-backends.

The Argo Rollouts controller starts it; register it in the ConfigMap argo-rollouts-config.`,
		},
		New: func(connect func() (*rest.Config, error), logger hclog.Logger, options rolloutsplugin.RouterOptions) (rpc.TrafficRouterPlugin, error) {
			return kedify.New(connect, logger, kedify.Options{WatchNamespace: options.WatchNamespace, SelfHeal: options.SelfHeal}), nil
		},
	}.Command()
	root.AddCommand(formerCheck())
	return root
}

// formerCheck says where `check` is now, whatever its arguments: users have it in
// scripts.
func formerCheck() *cobra.Command {
	return &cobra.Command{
		Use:                "check",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("check is a program of its own now, `kubectl canary check` with the same arguments: install kubectl-canary of this release, " + releases)
		},
	}
}

// releases is where the programs of a release are.
const releases = "https://github.com/kedify/argo-rollouts-plugin/releases"
