package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// ErrFailed is what the command returns when a check is a Failure: the report
// has said it all, so it is not to be printed.
var ErrFailed = errors.New("a check failed")

// ExitCode returns the process exit code for an error of the command: 0 for
// none, 1 for ErrFailed, 2 for wrong usage or when nothing could be checked.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrFailed):
		return 1
	default:
		return 2
	}
}

// defaultTimeout bounds the reading of the cluster.
const defaultTimeout = 30 * time.Second

// NewCommand returns `check [rollout]` of a version of the program. It prints its report to
// the command's output, and prints no errors: the caller does, save for ErrFailed, and exits
// with ExitCode.
func NewCommand(version string) *cobra.Command {
	var (
		opts       Options
		connection connection
		output     = "text"
		files      []string
	)
	cmd := &cobra.Command{
		Use:   "check [rollout]",
		Short: "Look at a cluster for what keeps a canary from working",
		Long: `Look at a cluster, with your kubeconfig, for what keeps a canary with the
traffic router kedify/http, the one for the Gateway API or plugin steps from
working, and print a list of ✓, ! and ✗ with what to do for each. It changes
nothing. Without a Rollout's name it checks every Rollout in the namespace that
uses one of them, or that has trafficRouting without any router. With -f it
looks at manifests instead, and needs no cluster.

Exit code: 0 without ✗, 1 with any, 2 when it could not be checked.`,
		Example: `  kubectl canary check myapp -n shop
  kubectl canary check -f rollout.yaml
  kubectl canary check -n shop --download -o json`,
		Args:          cobra.MaximumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output %q: want text or json", output)
			}
			if opts.Timeout <= 0 {
				return fmt.Errorf("--timeout %s: want a duration above 0, such as %s", opts.Timeout, defaultTimeout)
			}
			var report Report
			var err error
			switch {
			case len(files) > 0 && len(args) == 1:
				err = fmt.Errorf("rollout %q and --filename: want one of both, a Rollout of the cluster or manifests", args[0])
			case len(files) > 0:
				report, err = RunOnManifests(files, cmd.InOrStdin(), connection.namespace())
			default:
				opts.Rollout = strings.Join(args, "")
				report, err = run(cmd.Context(), opts, connection)
			}
			if err != nil {
				return err
			}
			report.addLinks(version)
			return printReport(cmd, report, output)
		},
	}
	flags := cmd.Flags()
	connection.addFlags(flags)
	flags.StringVar(&opts.ControllerNamespace, "controller-namespace", "", "namespace of the Argo Rollouts controller (default: searched for)")
	flags.StringVar(&opts.InterceptorNamespace, "interceptor-namespace", defaultInterceptorNamespace, "namespace of the interceptors")
	flags.BoolVar(&opts.Download, "download", false, "also fetch the plugin from its location and compare the sha256")
	flags.StringArrayVarP(&files, "filename", "f", nil, "a file with Rollouts to check instead of the cluster, for what an API server would drop; - is stdin; may be repeated")
	flags.StringVarP(&output, "output", "o", output, "text or json")
	flags.DurationVar(&opts.Timeout, "timeout", defaultTimeout, "how long reading the cluster may take; a download has 2m of its own")
	return cmd
}

func run(ctx context.Context, opts Options, connection connection) (Report, error) {
	cfg, namespace, err := connection.load()
	if err != nil {
		return Report{}, err
	}
	opts.Namespace = namespace
	if ctx == nil {
		ctx = context.Background()
	}
	return Run(ctx, cfg, opts)
}

// printReport prints a report in a form, and returns ErrFailed if a check failed.
func printReport(cmd *cobra.Command, report Report, output string) error {
	write := report.WriteText
	if output == "json" {
		write = report.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if report.Failed() {
		return ErrFailed
	}
	return nil
}
