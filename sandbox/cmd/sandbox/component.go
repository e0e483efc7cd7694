package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// here returns the sandbox that this process runs in, or else the one that the
// flags select.
func (w *which) here() (*cluster.Sandbox, error) {
	if cluster.Inside() {
		return cluster.Current()
	}
	return w.open()
}

func componentCommand(w *which) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "component",
		Short: "Stop or start a component: " + strings.Join(cluster.Components(), ", "),
		Long: `Stop or start one of a sandbox's components, to see what happens without it:
` + strings.Join(cluster.Components(), ", ") + `.
It works outside and inside of the sandbox.`,
	}
	var kill bool
	stop := &cobra.Command{
		Use:   "stop NAME",
		Short: "Stop a component and return when it is gone",
		RunE: func(cmd *cobra.Command, args []string) error {
			action := "stop"
			if kill {
				action = "kill"
			}
			return changeComponent(cmd, w, action, args[0])
		},
	}
	stop.Flags().BoolVar(&kill, "kill", false, "with SIGKILL")
	start := &cobra.Command{
		Use:   "start NAME",
		Short: "Start a component and return when it is ready",
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeComponent(cmd, w, "start", args[0])
		},
	}
	for _, c := range []*cobra.Command{stop, start} {
		c.Args = cobra.ExactArgs(1)
		c.ValidArgs = cluster.Components()
		cmd.AddCommand(c)
	}
	return cmd
}

func changeComponent(cmd *cobra.Command, w *which, action, name string) error {
	if !slices.Contains(cluster.Components(), name) {
		return fmt.Errorf("no component %q; there are: %s", name, strings.Join(cluster.Components(), ", "))
	}
	s, err := w.here()
	if err != nil {
		return err
	}
	return s.Component(cmd.Context(), action, name)
}

func logsCommand(w *which) *cobra.Command {
	return &cobra.Command{
		Use:       "logs COMPONENT",
		Short:     "Print the log of a component, of the sandbox itself, or of the releases server",
		Args:      cobra.ExactArgs(1),
		ValidArgs: append(cluster.Components(), "sandbox", "releases"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := cluster.NewLayout(w.name, w.state)
			if err != nil {
				return err
			}
			if cluster.Inside() {
				if l, err = cluster.InsideLayout(); err != nil {
					return err
				}
			}
			return l.CopyLog(args[0], cmd.OutOrStdout())
		},
	}
}
