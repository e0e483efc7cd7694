package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/lint"
)

// foundError is the error of lint: the number of problems that it has found.
type foundError int

func (e foundError) Error() string {
	if e == 1 {
		return "1 problem"
	}
	return fmt.Sprintf("%d problems", int(e))
}

// lint returns the subcommand that checks files.
func (p program) lint() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE…",
		Short: "Check the plugin steps of Rollouts, presets and argo-rollouts-config in files, without a cluster",
		Long: `Check the plugin steps of Rollouts, presets (ConfigMaps with a key preset.yaml) and
argo-rollouts-config in files of YAML or JSON, without a cluster; - is stdin. The files are
checked against one another: a step is read by its kind, with its preset, where the files have
its registration and that preset. A preset that steps name with use has the label
rollouts.kedify.io/step-preset: "true". Objects of other kinds are passed over.

The exit code is 1 when something is wrong, and 2 when the files cannot be read.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			var files []lint.File
			for _, name := range names {
				text, err := readFile(name, cmd.InOrStdin())
				if err != nil {
					return err
				}
				files = append(files, lint.File{Name: name, Text: text})
			}
			report := lint.Files(files, p.kinds)
			out := cmd.OutOrStdout()
			for _, finding := range report.Findings {
				fmt.Fprintln(out, finding)
			}
			for _, unchecked := range report.Unchecked {
				fmt.Fprintln(out, "not checked:", unchecked)
			}
			for _, disabled := range report.Disabled {
				fmt.Fprintln(out, "disabled:", disabled)
			}
			switch {
			case len(report.Findings) > 0:
				return foundError(len(report.Findings))
			case report.Rollouts+report.Presets+report.Registrations == 0:
				return errors.New("the files have no Rollout, no preset and no argo-rollouts-config with stepPlugins")
			}
			fmt.Fprintln(out, "ok:", report.Summary())
			return nil
		},
	}
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}
