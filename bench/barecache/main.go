// Command barecache is what `make bench-scaling` compares the scaler's memory with:
// controller-runtime's cache of all HTTPScaledObjects, as it is by default, and no more.
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "barecache:", err)
		os.Exit(1)
	}
}

func run() error {
	reached, err := config.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := httpv1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	objects, err := cache.New(reached, cache.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	ctx := signals.SetupSignalHandler()
	if _, err := objects.GetInformer(ctx, &httpv1alpha1.HTTPScaledObject{}, cache.BlockUntilSynced(false)); err != nil {
		return err
	}
	return objects.Start(ctx)
}
