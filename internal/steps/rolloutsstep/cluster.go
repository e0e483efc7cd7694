package rolloutsstep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// watchWait is how long a check waits for the watch to begin.
	watchWait = 10 * time.Second
	// versionWait is the default of cluster.versionWait: a watch is seldom seconds behind.
	versionWait = 5 * time.Second
)

// cluster reads the Rollouts of this cluster.
type cluster struct {
	rollouts *kube.Summaries[Rollout]
	objects  *kube.Objects
	now      func() time.Time
	// versionWait is how long a check waits for the watch to come as far as the controller
	// is; tests shorten it.
	versionWait time.Duration

	mu sync.Mutex
	// retried holds when the watch has shown that a Rollout was no longer aborted.
	retried map[name]time.Time
}

func newCluster(opts Options) *cluster {
	c := &cluster{objects: kube.NewObjects(opts.Connect), now: time.Now, versionWait: versionWait, retried: map[name]time.Time{}}
	c.rollouts = kube.NewSummaries(opts.Connect, kube.SummariesOptions[Rollout]{
		Resource:     v1alpha1.RolloutGVR,
		Namespace:    opts.WatchNamespace,
		Summarize:    readRollout,
		Changed:      c.changed,
		WithoutWatch: "Rollouts that steps wait for by name are read one by one, and those of a selector are not known",
		Logger:       opts.Logger,
	})
	return c
}

func (c *cluster) close() { c.rollouts.Close() }

// changed keeps when a Rollout is retried, as nothing in its status keeps that time. The
// canary then begins anew, at times with the pods that it had: after an abort they stay
// for abortScaleDownDelaySeconds.
func (c *cluster) changed(before, after *kube.Summary[Rollout]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case after == nil:
		delete(c.retried, name{before.Namespace, before.Name})
	case before == nil:
	case before.UID != after.UID:
		delete(c.retried, name{after.Namespace, after.Name})
	case before.Content.Aborted && !after.Content.Aborted:
		// In whole seconds, as the times of failures are.
		c.retried[name{after.Namespace, after.Name}] = c.now().Truncate(time.Second)
	}
}

// snapshot returns the Rollouts of a selection, except own. They are at least as new as
// own at its resourceVersion version.
func (c *cluster) snapshot(ctx context.Context, own name, version string, s selection) (Snapshot, error) {
	if err := c.awaitVersion(ctx, own, version); err != nil {
		return Snapshot{}, err
	}
	if s.selector != nil {
		return c.selected(own, s)
	}
	var snapshot Snapshot
	for _, n := range s.names {
		n = n.in(own.namespace)
		if n == own {
			continue
		}
		other := Other{Name: n.String()}
		found, err := c.rollouts.Get(ctx, n.namespace, n.name)
		switch {
		case err == nil:
			other.Rollout = &found.Content
		case !apierrors.IsNotFound(err) || kube.IsPathUnknown(err):
			return Snapshot{}, fmt.Errorf("Rollout %s cannot be read: %w", n, err)
		}
		snapshot.Others = append(snapshot.Others, other)
	}
	return snapshot, nil
}

// awaitVersion waits until the watch, if there is one, is at least as new as own at its
// resourceVersion version.
func (c *cluster) awaitVersion(ctx context.Context, own name, version string) error {
	watchCtx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	if watching, err := c.rollouts.Await(watchCtx); !watching || err != nil {
		return err
	}
	versionCtx, cancel := context.WithTimeout(ctx, c.versionWait)
	defer cancel()
	reached, err := c.rollouts.AwaitVersion(versionCtx, own.namespace, own.name, version)
	if err == nil && !reached {
		err = errors.New("the watch of Rollouts is behind the controller")
	}
	return err
}

func (c *cluster) selected(own name, s selection) (Snapshot, error) {
	namespaces := s.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{own.namespace}
	}
	var snapshot Snapshot
	for _, namespace := range namespaces {
		found, ok := c.rollouts.List(namespace, s.selector)
		if !ok {
			return Snapshot{}, fmt.Errorf("which Rollouts of namespace %s the selector (%s) matches is known from a watch alone, and there is none: grant the controller list and watch of rollouts.argoproj.io, or give names", namespace, s.text)
		}
		for _, rollout := range found {
			if n := (name{rollout.Namespace, rollout.Name}); n != own && !rollout.Content.Deleted {
				snapshot.Others = append(snapshot.Others, Other{Name: n.String(), Rollout: &rollout.Content})
			}
		}
	}
	if count := len(snapshot.Others); count < s.min {
		snapshot.TooFew = fmt.Sprintf("the selector (%s) matches %d other Rollouts in namespace %s, and min is %d: create or label them, or set min: 0", s.text, count, strings.Join(namespaces, ", "), s.min)
	}
	return snapshot, nil
}

// canarySince returns when a Rollout's canary began: when the oldest of its pods that have
// not ended was created, or when the canary was retried after that; zero if it has no
// pods.
func (c *cluster) canarySince(ctx context.Context, ro *v1alpha1.Rollout) (time.Time, error) {
	if ro.Status.UpdatedReplicas == 0 {
		return time.Time{}, nil
	}
	since, err := c.oldestPod(ctx, ro)
	if err != nil || since.IsZero() {
		return since, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if retried := c.retried[name{ro.Namespace, ro.Name}]; retried.After(since) {
		since = retried
	}
	return since.UTC(), nil
}

// oldestPod returns when the oldest pod of a Rollout's canary that has not ended was
// created; zero if there is none.
func (c *cluster) oldestPod(ctx context.Context, ro *v1alpha1.Rollout) (time.Time, error) {
	var pods metav1.PartialObjectMetadataList
	of := kube.Selection{
		Labels: labels.Set{v1alpha1.DefaultRolloutUniqueLabelKey: ro.Status.CurrentPodHash}.String(),
		// Evicted pods stay, with phase Failed, and may be of an earlier try.
		Fields:   "status.phase!=Failed,status.phase!=Succeeded",
		Metadata: true,
	}
	if err := c.objects.List(ctx, corev1.SchemeGroupVersion.WithResource("pods"), ro.Namespace, of, &pods); err != nil {
		return time.Time{}, fmt.Errorf("the age of the canary's pods, from which it is known which failures are newer, cannot be read (grant the controller list of pods in namespace %s): %w", ro.Namespace, err)
	}
	var since time.Time
	for _, pod := range pods.Items {
		if !belongs(&pod, ro) || pod.DeletionTimestamp != nil {
			continue
		}
		if created := pod.CreationTimestamp.Time; since.IsZero() || created.Before(since) {
			since = created
		}
	}
	return since, nil
}

// belongs tells whether a pod is of a Rollout's current ReplicaSet.
func belongs(pod *metav1.PartialObjectMetadata, ro *v1alpha1.Rollout) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "ReplicaSet" && owner.Name == replicaSetOf(ro)
}
