// Command sandbox runs a Kubernetes cluster with Argo Rollouts and the plugin
// on one Linux machine, without root and without Docker.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// exitError is an exit code to pass on without a message: the command has already
// reported what it had to.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	err := root().ExecuteContext(ctx)
	stop()
	os.Exit(report(os.Stderr, err))
}

// report says why a command failed, if it did, and returns the exit code.
func report(out io.Writer, err error) int {
	if err == nil {
		return 0
	}
	var code exitError
	if errors.As(err, &code) {
		return int(code)
	}
	_, _ = fmt.Fprintln(out, "sandbox:", err)
	if errors.Is(err, cluster.ErrInterrupted) {
		return 128 + int(unix.SIGINT)
	}
	return 1
}

// which selects a sandbox, by name or by state directory.
type which struct{ name, state string }

func (w *which) open() (*cluster.Sandbox, error) { return cluster.Open(w.name, w.state) }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "A Kubernetes cluster with Argo Rollouts on this machine, without root and without Docker",
		Long: `A Kubernetes cluster with Argo Rollouts and the traffic router plugin on this
machine: the real control plane and the real controller, in namespaces of its
own, with a node that runs pods as plain processes. It needs no root and no
Docker, only Go to build it and user namespaces to run in.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	var w which
	flags := cmd.PersistentFlags()
	flags.StringVar(&w.name, "name", cluster.DefaultName, "name of the sandbox; sandboxes of different names run side by side")
	flags.StringVar(&w.state, "state", "", "state directory, instead of the one for the name")
	cmd.AddCommand(
		upCommand(&w), downCommand(&w), statusCommand(&w),
		shellCommand(&w), execCommand(&w), logsCommand(&w), componentCommand(&w),
		forwardCommand(&w), demoCommand(&w), buildCommand(), pathCommand(),
	)
	cmd.AddCommand(internalCommands(&w)...)
	return cmd
}
