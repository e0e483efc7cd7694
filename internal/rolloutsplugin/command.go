package rolloutsplugin

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// TrafficRouter is the program of a traffic router plugin.
type TrafficRouter struct {
	// Name is the program's; Version and Commit are those of the build.
	Name, Version, Commit string
	// Short and Long describe it for --help.
	Short, Long string
	// New makes the router when the controller has started the program.
	New func(connect func() (*rest.Config, error), logger hclog.Logger, options RouterOptions) (rpc.TrafficRouterPlugin, error)
}

// RouterOptions are the settings that all routers have.
type RouterOptions struct {
	// WatchNamespace is the one namespace to watch; all of them when it is empty.
	WatchNamespace string
	// SelfHeal has the router write between two calls.
	SelfHeal bool
}

// Command returns the command line: without a subcommand it serves the router to the
// controller that has started it, with the flags --log-level, --log-format,
// --watch-namespace and --self-heal; `version` prints the version.
func (p TrafficRouter) Command() *cobra.Command {
	var level, format string
	var options RouterOptions
	root := &cobra.Command{
		Use:           p.Name,
		Short:         p.Short,
		Long:          p.Long,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := NewLogger(os.Stderr, p.Name, level, format)
			if err != nil {
				return err
			}
			if problems := validation.IsDNS1123Label(options.WatchNamespace); options.WatchNamespace != "" && len(problems) > 0 {
				return fmt.Errorf("--watch-namespace %q: want the name of one namespace: %s", options.WatchNamespace, strings.Join(problems, "; "))
			}
			if !StartedByController() {
				_ = cmd.Usage()
				return errors.New("this is a plugin: the Argo Rollouts controller runs it (`kubectl canary check` looks at your set-up)")
			}
			connect := func() (*rest.Config, error) { return kube.RESTConfig(p.Name + "/" + p.Version) }
			router, err := p.New(connect, logger, options)
			if err != nil {
				return err
			}
			logger.Info("starting", "version", p.Version, "commit", p.Commit)
			ServeTrafficRouter(router, logger)
			return nil
		},
	}
	root.Flags().StringVar(&level, "log-level", "info", "least level logged: trace, debug, info, warn or error")
	root.Flags().StringVar(&format, "log-format", "json", "json (keeps its levels in the controller's log) or text")
	root.Flags().StringVar(&options.WatchNamespace, "watch-namespace", "", "the one namespace to watch, for a controller that runs with --namespaced (default: all)")
	root.Flags().BoolVar(&options.SelfHeal, "self-heal", true, "write between two calls, to put back what something else has changed; false writes at the controller's calls alone")
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), Version(p.Name, p.Version, p.Commit))
			return err
		},
	})
	return root
}
