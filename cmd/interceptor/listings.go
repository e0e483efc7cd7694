package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

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
			at := strings.TrimSuffix(admin, "/") + path
			request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, at, nil)
			if err != nil {
				return fmt.Errorf("--admin: %w", err)
			}
			response, err := (&http.Client{Timeout: 30 * time.Second}).Do(request)
			if err != nil {
				return fmt.Errorf("no interceptor answers (kubectl port-forward to port 9090 of one, or run this in its pod): %w", err)
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("%s answers %s: is this the admin port of an interceptor?", at, response.Status)
			}
			if output == "json" {
				_, err := io.Copy(cmd.OutOrStdout(), response.Body)
				return err
			}
			list := into()
			if err := json.NewDecoder(response.Body).Decode(list); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			return list.Print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&admin, "admin", "http://127.0.0.1:9090", "admin address of the interceptor")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or nothing for a table")
	return cmd
}
