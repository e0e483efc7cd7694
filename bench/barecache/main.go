// Command barecache is what `make bench-scaling` compares the scaler's memory with:
// controller-runtime's cache of all HTTPScaledObjects, as it is by default, and no more. With
// -scaledobjects it is one of KEDA's ScaledObjects, for the agent's in `make bench-agent`.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

func main() {
	ofKEDA := flag.Bool("scaledobjects", false, "cache KEDA's ScaledObjects")
	flag.Parse()
	var kind client.Object = &httpv1alpha1.HTTPScaledObject{}
	if *ofKEDA {
		kind = &scaledobject.ScaledObject{}
	}
	if err := run(kind); err != nil {
		fmt.Fprintln(os.Stderr, "barecache:", err)
		os.Exit(1)
	}
}

func run(kind client.Object) error {
	reached, err := config.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{httpv1alpha1.AddToScheme, scaledobject.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	objects, err := cache.New(reached, cache.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	ctx := signals.SetupSignalHandler()
	if _, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
		return err
	}
	return objects.Start(ctx)
}
