// Command bench measures the kedify/http plugin over RPC against a real API
// server, beside a build of it whose calls do nothing and one with client-go's
// default rate limit. It prints figures and ratios and judges none: `make
// bench` builds the three and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// binaries are the paths of the three builds.
type binaries struct{ plugin, idle, throttled string }

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var b binaries
	flag.StringVar(&b.plugin, "plugin", "", "the plugin as released")
	flag.StringVar(&b.idle, "idle", "", "the build whose calls do nothing")
	flag.StringVar(&b.throttled, "throttled", "", "the build with client-go's default rate limit")
	crd := flag.String("crd", "", "the HTTPScaledObject CRD")
	flag.Parse()
	if b.plugin == "" || b.idle == "" || b.throttled == "" || *crd == "" {
		fmt.Fprintln(os.Stderr, "bench: -plugin, -idle, -throttled and -crd are needed; `make bench` gives them")
		return 2
	}
	var err error
	if cluster.Inside() {
		err = measure(ctx, b, *crd)
	} else {
		err = enter(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// enter brings up a sandbox without a controller, runs this program again in
// it, and takes it down.
func enter(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sandbox, err := cluster.Up(ctx, cluster.Options{
		Name:     fmt.Sprintf("bench-%d", os.Getpid()),
		Bare:     true,
		Owned:    true,
		Progress: progress.New(os.Stderr),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sandbox.Down()) }()
	args := []string{self}
	for _, arg := range os.Args[1:] {
		// The working directory inside is the same, but say it plainly.
		if path, absErr := filepath.Abs(arg); absErr == nil && exists(path) {
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
