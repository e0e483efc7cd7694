package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

func buildCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build into the cache what takes long, and print where the cluster's programs are",
		Long: `Build into the cache what the first ` + "`up`" + ` with the same flags would: the
control plane and the add-ons, but for this project's own programs. What is
there already is not built again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := f.content()
			if err != nil {
				return err
			}
			kubernetes, err := cluster.Build(cmd.Context(), opts)
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), kubernetes)
			}
			return err
		},
	}
	f.registerContent(cmd)
	return cmd
}

func pathCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "path ADDON PROGRAM",
		Short: "Print the path of a program that an add-on takes from elsewhere, such as envoy envoy",
		Long: `Print the path of a program that an add-on takes from elsewhere, built or
downloaded into the cache if need be.`,
		Example: "  sandbox path envoy envoy\n  sandbox path argo-rollouts kubectl-argo-rollouts",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := f.content()
			if err != nil {
				return err
			}
			path, err := cluster.AddonPath(cmd.Context(), opts, args[0], args[1])
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return err
		},
	}
	f.registerReleases(cmd)
	return cmd
}
