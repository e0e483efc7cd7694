package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

func buildCommand() *cobra.Command {
	var opts build.Options
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the cluster's components into the cache, and print where they are",
		Long: `Build the cluster's components into the cache, as the first ` + "`up`" + ` would, and
print the directory. If they are there already, nothing is built.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Progress = newProgress()
			cluster, err := build.Ensure(cmd.Context(), opts)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), cluster.Dir)
			return err
		},
	}
	cmd.Flags().StringVar(&opts.Cache, "cache", "", cacheUsage)
	return cmd
}
