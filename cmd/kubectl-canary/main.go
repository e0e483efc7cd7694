// Command kubectl-canary is the kubectl plugin `kubectl canary`. Its `check` looks at a
// cluster for what keeps a canary from working with the plugins of this project; its `steps`
// shows how the plugin steps of a canary go.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/kubectlcanary/check"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// name is the program's: kubectl runs `kubectl-canary` for `kubectl canary`.
const name = "kubectl-canary"

// Set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

func main() {
	err := command().Execute()
	// If a check has failed, the report has said so.
	if err != nil && !errors.Is(err, check.ErrFailed) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(check.ExitCode(err))
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           name,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl canary"},
		Short:         "Look at canaries of Argo Rollouts",
		Long:          "Look at canaries of Argo Rollouts whose traffic is routed by kedify/http or through the Gateway API, or that have plugin steps.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(check.NewCommand(version), check.NewStepsCommand(), &cobra.Command{
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
