package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/node"
)

// internalCommands are the entry points under which this program runs itself
// inside the namespaces of a sandbox. They are not for users.
func internalCommands(w *which) []*cobra.Command {
	layout := func() (cluster.Layout, error) {
		if w.state == "" {
			return cluster.Layout{}, errors.New("internal command: --state is missing")
		}
		return cluster.NewLayout("", w.state)
	}
	// entry makes a command of a function that returns an exit code.
	entry := func(name string, run func(cluster.Layout) int) *cobra.Command {
		return &cobra.Command{
			Use: name, Hidden: true, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				l, err := layout()
				if err != nil {
					return err
				}
				if code := run(l); code != 0 {
					return exitError(code)
				}
				return nil
			},
		}
	}

	var owned bool
	initialize := entry("init", func(l cluster.Layout) int { return cluster.InitMain(l, owned) })
	initialize.Flags().BoolVar(&owned, "owned", false, "descriptor 3 is a pipe; end when its other end closes")

	var (
		dir        string
		foreground bool
	)
	enter := &cobra.Command{
		Use: "enter", Hidden: true, Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := layout()
			if err != nil {
				return err
			}
			return cluster.EnterMain(l, dir, foreground, args)
		},
	}
	enter.Flags().StringVar(&dir, "dir", "/", "working directory")
	enter.Flags().BoolVar(&foreground, "foreground", false, "take the terminal for the command")

	container := &cobra.Command{
		Use: "container", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return exitError(node.ContainerMain(args))
		},
	}

	return []*cobra.Command{initialize, container, entry("trial", cluster.TrialMain), entry("daemon", cluster.DaemonMain), entry("node", cluster.NodeMain), enter, forwardInsideCommand()}
}
