// Command region makes a cluster of an API server and its controllers, for the add-on
// region.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = "usage: region install FILE | region pods; KUBECONFIG names the cluster"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "region:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "install":
		return install(ctx, args[1])
	case len(args) == 1 && args[0] == "pods":
		return runPods(ctx)
	}
	return fmt.Errorf("%q: %s", args, usage)
}
