package uninstall

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

const (
	// As controller-runtime's, which the agents have.
	leaseDuration, renewDeadline, retryPeriod = 15 * time.Second, 10 * time.Second, 2 * time.Second
	// patience is how long an agent that ends may hold the Lease. One that was killed holds
	// it for leaseDuration.
	patience = 2 * leaseDuration
)

// WithLease does something while it holds the Lease of the agent that writes, so that no
// agent writes meanwhile. It fails if an agent does not give the Lease away.
func WithLease(ctx context.Context, config *rest.Config, namespace string, do func(context.Context) error) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, agent.Name,
		resourcelock.ResourceLockConfig{Identity: host + "_uninstall_" + uuid.NewString()}, config, renewDeadline)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result, led := make(chan error, 1), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: agent.Name, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(led)
				result <- do(ctx)
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	giveUp := time.AfterFunc(patience, func() {
		select {
		case <-led:
		default:
			cancel()
		}
	})
	defer giveUp.Stop()
	elector.Run(ctx) // until the context is done, or the Lease is lost
	select {
	case <-led:
		return <-result // of a context that is done by now
	default:
		return fmt.Errorf("lease %s/%s is held by %q: expected that no agent runs: kubectl -n %s scale deployment %s --replicas=0",
			namespace, agent.Name, elector.GetLeader(), namespace, agent.Name)
	}
}
