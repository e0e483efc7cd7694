// Command rollouts-plugin-step is an Argo Rollouts step plugin. It serves every kind of step
// under one name, such as kedify/step, or one kind, which is then its first argument.
// The subcommands `lint` and `version` are for people.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
)

// Set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

func main() { os.Exit(run(os.Args, kinds.All)) }

// program is this program with its kinds of steps.
type program struct {
	rolloutsplugin.Program
	kinds func(kinds.Options) []steps.Kind
}

// run runs the program with its arguments, and returns its exit code.
func run(args []string, all func(kinds.Options) []steps.Kind) int {
	p := program{
		Program: rolloutsplugin.Program{
			Name: "rollouts-plugin-step", Version: version, Commit: commit,
			Short: "Argo Rollouts canary step plugin",
			Long: `An Argo Rollouts step plugin: it lets a canary wait on, and act on, the world outside it.

The Argo Rollouts controller starts it; register it in the ConfigMap argo-rollouts-config under
stepPlugins. Each step then says what it does, and may name a preset. With a kind of step as the
first of its args, all steps are of that kind.`,
		},
		kinds: all,
	}
	// Serve whatever the arguments are: a plugin that does not serve would stop each
	// Rollout that uses it, and only the controller's log would say why.
	if rolloutsplugin.StartedAsStep() {
		p.serve(args[0], args[1:])
		return 0
	}
	root := p.command()
	root.SetArgs(args[1:])
	if err := root.Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		return exitCode(err)
	}
	return 0
}

// exitCode is 1 where lint has found something, else 2.
func exitCode(err error) int {
	if found := foundError(0); errors.As(err, &found) {
		return 1
	}
	return 2
}

// command returns the command line for people.
func (p program) command() *cobra.Command {
	var args registration.Args
	root := p.Command(func(cmd *cobra.Command, beside []string) error {
		if len(beside) > 0 {
			if _, err := args.Registration(beside, kinds.Names(p.kinds(kinds.Options{Version: p.Version}))); err != nil {
				return err
			}
		}
		return rolloutsplugin.NotServed(cmd)
	})
	root.Use += " [KIND]"
	root.Args = cobra.ArbitraryArgs
	args.AddTo(root.Flags())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return registration.Unknown(cmd.Flags(), err) })
	root.AddCommand(p.lint())
	return root
}
