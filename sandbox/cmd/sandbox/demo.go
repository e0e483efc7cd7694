package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/demo"
)

func demoCommand(w *which) *cobra.Command {
	var (
		f             upFlags
		keep          bool
		router, proxy string
		picture       string
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch two canaries on a sandbox made for them",
		Long: `Bring a sandbox up, apply the guide's sample and take it through a canary that
is promoted, and one that fails 15 in 100 requests and is aborted by a background
analysis. Shown are the Rollout's weight, the split that the router has written, the
analysis, and the colours that answer its requests all along. The exit code is 1
if anything was not as claimed: a step, a share, a single request that failed
and was not the bad version's own. The sandbox is taken down at the end, also by
Ctrl-C.

The requests go through the interceptor's embedded proxy, or, with --proxy envoy,
through kedify-proxy: a real Envoy, which is downloaded once. With --router gatewayapi
they go through a Gateway, which is Contour with such an Envoy, and as many with a
header that a header route sends to the new version.

With --router guide all of Kedify's guide is shown, command by command, with KEDA, the
agent and an Ingress: pods follow the requests, a canary is promoted and one aborted
by hand, and in the end all is removed again. What the commands print is compared with
what the guide shows.

With --router steps a canary without a router is shown, whose steps tell a chat, run a
Job, and wait for another Rollout and for one of another cluster. That one fails, and
all roll back.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			show, err := demo.Find(router, proxy)
			if err != nil {
				return err
			}
			opts, err := f.resolve(w)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("name") {
				opts.Name = "" // the demo has a name of its own
			}
			if picture != "" {
				if picture, err = filepath.Abs(picture); err != nil {
					return err
				}
			}
			code, err := demo.Run(cmd.Context(), demo.Options{Sandbox: opts, Demo: show, Picture: picture, Keep: keep, Out: os.Stdout})
			if err == nil && code != 0 {
				err = exitError(code)
			}
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&router, "router", demo.Kedify, "the traffic router, kedify or gatewayapi; or guide for the walk through the guide, or steps for a canary with steps")
	cmd.Flags().StringVar(&proxy, "proxy", "", "what splits the requests of router kedify: embedded or envoy (default embedded)")
	cmd.Flags().StringVar(&picture, "picture", "", "write an SVG of the requests to this file; only with two canaries, which routers kedify and gatewayapi have")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the sandbox up at the end")
	return cmd
}
