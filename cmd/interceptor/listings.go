package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/xds"
)

func newRoutes() *cobra.Command {
	return newListing("routes", "Print what a running interceptor serves", "/debug/routes", func() listing { return new(proxy.RouteList) })
}

func newEnvoys() *cobra.Command {
	return newListing("envoys", "Print what the kedify-proxies of a running interceptor have acknowledged", "/debug/envoys", func() listing { return new(xds.EnvoyList) })
}

// listing is what the admin port of an interceptor answers in JSON.
type listing interface{ Print(w io.Writer) error }

// newListing makes a command that prints what the admin port answers at a path.
func newListing(use, short, path string, into func() listing) *cobra.Command {
	var admin, output string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("-o %q: want json, or nothing for a table", output)
			}
			response, err := askAdmin(cmd.Context(), http.MethodGet, admin, path, "")
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if output == "json" {
				_, err := io.Copy(cmd.OutOrStdout(), response.Body)
				return err
			}
			list := into()
			if err := json.NewDecoder(response.Body).Decode(list); err != nil {
				return fmt.Errorf("%s%s: %w", admin, path, err)
			}
			return list.Print(cmd.OutOrStdout())
		},
	}
	addAdminFlag(cmd, &admin)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or nothing for a table")
	return cmd
}
