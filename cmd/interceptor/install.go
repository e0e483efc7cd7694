package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// newInstall is `interceptor install FILE`. The image holds nothing but this
// program: no cp, and no shell.
func newInstall() *cobra.Command {
	return &cobra.Command{
		Use:   "install FILE",
		Short: "Copy this program to a file, for another container of the pod",
		Long: `Copy this program to a file. kedify-proxy's pod has an init container that
installs it in a volume, so that Envoy's container, where there is no such
program, can run "interceptor drain" before it stops.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err == nil {
				err = install(self, args[0])
			}
			if err != nil {
				return fmt.Errorf("installing to %s: %w", args[0], err)
			}
			return nil
		},
	}
}

// install copies a program to a file. It replaces an existing file atomically: an init
// container may run again while the copy is in use.
func install(program, to string) (err error) {
	source, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.CreateTemp(filepath.Dir(to), ".install-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	// For every user: the containers of a pod may run as different ones.
	err = errors.Join(err, target.Chmod(0o755), target.Close())
	if err == nil {
		err = os.Rename(target.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(target.Name()))
	}
	return nil
}
