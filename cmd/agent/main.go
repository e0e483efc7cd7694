// Command agent makes HTTPScaledObjects from ScaledObjects with kedify-http triggers, and
// points Ingresses at kedify-proxy.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

const name = "agent"

// Set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

func main() {
	if err := command().ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := newServe()
	root.AddCommand(newUninstall(), &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (commit %s, %s, %s/%s)\n", name, version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	})
	return root
}
