// Package check looks at a cluster with a person's own kubeconfig and says
// what keeps a canary with one of this project's traffic routers from working,
// and what to do about it. It changes nothing.
//
// One edge reads the cluster into a plain snapshot; every check is a pure
// function from the snapshot to results, declared in a table.
package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
)

// Options say what to check.
type Options struct {
	// Namespace is the Rollouts' namespace.
	Namespace string
	// Rollout is the one Rollout to check. Empty: every Rollout in Namespace
	// that uses one of the routers, or has trafficRouting without any router;
	// that there is none is a warning.
	Rollout string
	// ControllerNamespace is where the Argo Rollouts controller runs. Empty: it
	// is searched for.
	ControllerNamespace string
	// InterceptorNamespace is where the interceptors run; "keda" when empty.
	InterceptorNamespace string
	// Timeout bounds the reading of the cluster; 0 leaves that to Run's ctx. A
	// single request never takes longer than 10 s.
	Timeout time.Duration
	// Download also fetches the plugin from its location and compares it with
	// its sha256 and the controller's platform. It has 2 minutes of its own.
	Download bool

	// patience is how long to look again at a proxy that does not serve what an
	// annotation says; defaultPatience when 0.
	patience time.Duration
}

// Run looks at the cluster and returns what it found. An object that it may not or
// cannot read is a warning in the report. It is an error when nothing can be said:
// the API server does not answer, does not accept the credentials, fails to list
// Rollouts, or the time was up before the cluster had been read.
func Run(ctx context.Context, cfg *rest.Config, opts Options) (Report, error) {
	if opts.Namespace == "" {
		return Report{}, errors.New("no namespace to check: name one with --namespace")
	}
	c, err := newCluster(cfg)
	if err != nil {
		return Report{}, err
	}
	s, err := gatherInTime(ctx, c, opts)
	if err != nil {
		return Report{}, err
	}
	if opts.Download {
		gatherDownloads(ctx, c, s.controller, s.plugins)
		gatherDownloads(ctx, c, s.controller, s.steps.programs)
	}
	return Report{Results: look(s)}, nil
}

func gatherInTime(ctx context.Context, c *cluster, opts Options) (snapshot, error) {
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.Timeout)
		defer cancel()
	}
	if err := c.reachable(ctx); err != nil {
		return snapshot{}, err
	}
	s := gather(ctx, c, opts)
	// Otherwise each read that was cut short would be reported as "could not look".
	if err := ctx.Err(); err != nil {
		return snapshot{}, fmt.Errorf("the cluster at %s was not read in time: %w; allow more with --timeout", c.host, err)
	}
	if err := s.objects.rollouts.Err; err != nil && !err.forbidden() && !err.notFound() {
		return snapshot{}, fmt.Errorf("the API server at %s does not say which Rollouts there are: %w; try again, or see why it does not", c.host, err)
	}
	return s, nil
}

// look makes all checks: of the installation first, then Rollout by Rollout.
func look(s snapshot) []Result {
	var results []Result
	for _, c := range checks {
		if c.installation != nil {
			results = append(results, c.named(c.installation(s))...)
		}
	}
	for _, ro := range rolloutsToCheck(s) {
		results = append(results, lookAt(subjectOf(s, ro))...)
	}
	hideCredentials(results)
	return results
}

// lookAt makes the checks of one Rollout, of the cluster or of a manifest.
func lookAt(r subject) []Result {
	var results []Result
	for _, c := range checks {
		if c.rollout == nil || r.manifest != nil && !c.ofManifests {
			continue
		}
		for _, result := range c.named(c.rollout(r)) {
			result.Rollout = r.ro.Namespace + "/" + r.ro.Name
			results = append(results, result)
		}
	}
	return results
}
