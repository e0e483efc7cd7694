// Command interceptor splits requests by HTTPScaledObjects. Without a subcommand
// it serves; `routes`, `envoys`, `log-level`, `bootstrap` and `version` are for people, `drain` and `install` for pods.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

const name = "interceptor"

// Set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

func main() {
	if err := command(os.LookupEnv).Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// command returns the command line; lookup is os.LookupEnv.
func command(lookup func(string) (string, bool)) *cobra.Command {
	root := newServe(lookup)
	root.AddCommand(newRoutes(), newEnvoys(), newLogLevel(), newDrain(), newInstall(), newBootstrap(), &cobra.Command{
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
