// Command rollouts-plugin-gatewayapi is an Argo Rollouts traffic router plugin for
// routes of the Gateway API. The controller runs it without a subcommand; `version`
// is for people.
package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

const name = "rollouts-plugin-gatewayapi"

// Set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

func main() {
	collectEarlier()
	root := command(os.Args[0])
	root.SetArgs(withTwoDashes(os.Args[1:]))
	if err := root.Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
}

// collectEarlier has garbage collected when the heap has grown by half of the live heap,
// rather than to twice that: nearly all of the live heap are the routes of the cluster,
// which stay, and calls that change nothing make little garbage. GOGC in the environment
// takes precedence.
func collectEarlier() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// Flags of argoproj-labs/gatewayAPI, which users have in their ConfigMaps.
const (
	formerQPS    = "kubeClientQPS"
	formerBurst  = "kubeClientBurst"
	formerFormat = "logformat"
	// formerKubeconfig names the kubeconfig file, as it does there.
	formerKubeconfig = "kubeconfig"
)

// command returns the command line of a program that was started as path.
func command(path string) *cobra.Command {
	registered := cmp.Or(rolloutsplugin.RegisteredAs(path), gatewayapi.DefaultPluginName)
	var former *pflag.FlagSet
	var file string
	root := rolloutsplugin.TrafficRouter{
		Program: rolloutsplugin.Program{
			Name: name, Version: version, Commit: commit,
			Short: "Argo Rollouts traffic router for the Gateway API",
			Long: `An Argo Rollouts traffic router plugin for routes of the Gateway API: it writes each canary weight
to the HTTPRoutes, GRPCRoutes, TCPRoutes, TLSRoutes and UDPRoutes that a Rollout names.

The Argo Rollouts controller starts it; register it in the ConfigMap argo-rollouts-config.`,
		},
		New: func(connect func() (*rest.Config, error), logger hclog.Logger, options rolloutsplugin.RouterOptions) (rpc.TrafficRouterPlugin, error) {
			for _, flag := range []string{formerQPS, formerBurst, formerFormat} {
				if former.Changed(flag) {
					logger.Warn("a flag of argoproj-labs/gatewayAPI is ignored: take it out of argo-rollouts-config (requests are not throttled; the format is set by --log-format)", "flag", flag)
				}
			}
			if former.Changed(formerKubeconfig) {
				if err := os.Setenv(clientcmd.RecommendedConfigPathEnvVar, file); err != nil {
					return nil, err
				}
			}
			return gatewayapi.New(connect, logger, gatewayapi.Options{
				PluginName: registered, WatchNamespace: options.WatchNamespace, SelfHeal: options.SelfHeal,
			}), nil
		},
	}.Command()
	former = root.Flags()
	former.StringVar(&registered, "name", registered, "name under which argo-rollouts-config registers the plugin; by default the path where the controller has put the program")
	former.StringVar(&file, formerKubeconfig, "", "kubeconfig file, instead of that of KUBECONFIG or the pod's ServiceAccount")
	former.Float64(formerQPS, 0, "of argoproj-labs/gatewayAPI: ignored, with a warning")
	former.Int(formerBurst, 0, "of argoproj-labs/gatewayAPI: ignored, with a warning")
	former.String(formerFormat, "", "of argoproj-labs/gatewayAPI: ignored, with a warning")
	return root
}

// withTwoDashes gives the flags of argoproj-labs/gatewayAPI a second dash: that plugin
// takes them with one or two, so users have both.
func withTwoDashes(args []string) []string {
	var all []string
	for _, arg := range args {
		switch flag, _, _ := strings.Cut(arg, "="); flag {
		case "-" + formerQPS, "-" + formerBurst, "-" + formerFormat, "-" + formerKubeconfig:
			arg = "-" + arg
		}
		all = append(all, arg)
	}
	return all
}
