package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/demo"
)

func demoCommand(w *which) *cobra.Command {
	var (
		f    upFlags
		keep bool
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch the guide's canary on a sandbox made for it",
		Long: `Bring a sandbox up, apply the guide's sample and take it through a canary that
is promoted and one that is aborted, showing the Rollout's weight and the split
on its HTTPScaledObject all along. The exit code is 1 if anything was not as
asked. The sandbox is taken down at the end, also by Ctrl-C.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := f.resolve(w)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("name") {
				opts.Name = "" // the demo has one of its own
			}
			code, err := demo.Run(cmd.Context(), demo.Options{Sandbox: opts, Keep: keep, Out: os.Stdout})
			if err == nil && code != 0 {
				err = exitError(code)
			}
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the sandbox up at the end")
	return cmd
}
