package gauge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// Enter brings up a sandbox without a controller, runs this program again in it
// with the same arguments, and takes it down.
func Enter(ctx context.Context) error { return EnterWith(ctx, os.Args[1:]) }

// EnterWith does the same with other arguments, in a sandbox that has some add-ons.
func EnterWith(ctx context.Context, arguments []string, addons ...string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sandbox, err := cluster.Up(ctx, cluster.Options{
		Name:     fmt.Sprintf("bench-%d", os.Getpid()),
		Bare:     true,
		With:     addons,
		Owned:    true,
		Progress: progress.New(os.Stderr),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sandbox.Down()) }()
	args := []string{self}
	for _, arg := range arguments {
		// Make paths absolute, although the working directory inside is the same.
		if path, absErr := filepath.Abs(arg); arg != "" && absErr == nil && exists(path) {
			arg = path
		}
		args = append(args, arg)
	}
	cmd, err := sandbox.Command(ctx, args...)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("the measurement ended with exit code %d", exit.ExitCode())
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
