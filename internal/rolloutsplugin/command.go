package rolloutsplugin

import (
	"errors"
	"fmt"
	"os"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// Program names the program of a plugin, and describes it for --help.
type Program struct {
	// Name is the program's name; Version and Commit are those of the build.
	Name, Version, Commit string
	Short, Long           string
}

// Connect returns the client configuration of the environment. It makes no request.
func (p Program) Connect() (*rest.Config, error) { return kube.RESTConfig(p.Name + "/" + p.Version) }

// Command returns the command line that every plugin has: without a subcommand it runs
// run; `version` prints the version.
func (p Program) Command(run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	root := &cobra.Command{
		Use:           p.Name,
		Short:         p.Short,
		Long:          p.Long,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          run,
	}
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

// NotServed returns the error for a program that the controller has not started as a
// plugin of its kind. If a person has started it, NotServed also prints the usage.
func NotServed(cmd *cobra.Command) error {
	if as := os.Getenv(cookieKey); as != "" {
		return fmt.Errorf("argo-rollouts-config has this plugin in the wrong list: the controller has started it as a plugin of the kind %q (traffic routers are listed under trafficRouterPlugins, steps under stepPlugins)", as)
	}
	_ = cmd.Usage()
	return errors.New("this is a plugin: the Argo Rollouts controller runs it (`kubectl canary check` looks at your set-up)")
}

// TrafficRouter is the program of a traffic router plugin.
type TrafficRouter struct {
	Program
	// New makes the router when the controller has started the program.
	New func(connect func() (*rest.Config, error), logger hclog.Logger, options RouterOptions) (rpc.TrafficRouterPlugin, error)
}

// RouterOptions are the settings that all routers have.
type RouterOptions struct {
	// WatchNamespace is the one namespace to watch; all of them when it is empty.
	WatchNamespace string
	// SelfHeal lets the router write between two calls.
	SelfHeal bool
}

// Command returns the command line: without a subcommand it serves the router to the
// controller that has started it, with the Flags of every plugin and --self-heal;
// `version` prints the version.
func (p TrafficRouter) Command() *cobra.Command {
	var flags Flags
	var options RouterOptions
	root := p.Program.Command(func(cmd *cobra.Command, _ []string) error {
		if err := flags.Validate(); err != nil {
			return err
		}
		if !StartedByController() {
			return NotServed(cmd)
		}
		logger, err := NewLogger(os.Stderr, p.Name, flags.LogLevel, flags.LogFormat)
		if err != nil {
			return err
		}
		options.WatchNamespace = flags.WatchNamespace
		router, err := p.New(p.Connect, logger, options)
		if err != nil {
			return err
		}
		logger.Info("starting", "version", p.Version, "commit", p.Commit)
		ServeTrafficRouter(router, logger)
		return nil
	})
	flags.AddTo(root.Flags())
	root.Flags().BoolVar(&options.SelfHeal, "self-heal", true, "put back what something else has changed, between two calls of the controller; with false the plugin writes at these calls alone")
	return root
}
