package rolloutsstep

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// regionViews tell what is known of regions: *regions.
type regionViews interface {
	// view returns what is known of a cluster's Rollouts of some namespaces. hosts are those of
	// the preset.
	view(ctx context.Context, c Cluster, hosts, namespaces []string) regionView
	close()
}

// failures keep how a region's Rollouts last failed, as long as they exist: whatever becomes of
// their specs and of the watch that has shown it.
type failures struct {
	mu   sync.Mutex
	last map[name]*kube.Summary[Rollout]
}

// changed takes what a watch shows (kube.SummariesOptions.Changed).
func (f *failures) changed(before, after *kube.Summary[Rollout]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after == nil {
		delete(f.last, name{before.Namespace, before.Name})
		return
	}
	// Before the controller has observed a change, an abort may be that of the version before.
	if at, _, failed := after.Content.failure(); failed && !at.IsZero() && after.Content.Observed {
		if f.last == nil {
			f.last = map[name]*kube.Summary[Rollout]{}
		}
		f.last[name{after.Namespace, after.Name}] = after
	}
}

// since returns a Rollout as it was when it last failed; nil if it was not seen to fail since a
// time.
func (f *failures) since(n name, since time.Time) *kube.Summary[Rollout] {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.last[n]
	if last == nil {
		return nil
	}
	if at, _, _ := last.Content.failure(); at.Before(since) {
		return nil
	}
	return last
}

const (
	// maxContainers and maxImage bound what is kept of a Rollout's images, maxAnnotations and
	// maxAnnotation of its annotations. kubectl's have the whole manifest.
	maxContainers  = 32
	maxImage       = 512
	maxAnnotations = 32
	maxAnnotation  = 128
)

// readRegionRollout is readRollout that also keeps what a version is made from.
func readRegionRollout(text []byte) Rollout {
	var ro v1alpha1.Rollout
	if err := utiljson.Unmarshal(text, &ro); err != nil {
		return Rollout{Unreadable: shorten(err.Error())}
	}
	r := rolloutOf(&ro)
	r.Annotations = annotationsOf(ro.Annotations)
	if ro.Spec.WorkloadRef != nil {
		r.ReplicaSet = replicaSetOf(&ro)
		return r
	}
	images, err := imagesByContainer(&ro.Spec.Template)
	if err != nil {
		r.Unreadable = err.Error()
	}
	r.Images = images
	return r
}

// replicaSetOf returns the name of a Rollout's current ReplicaSet, which the controller names
// after the Rollout and the hash (rollout/sync.go).
func replicaSetOf(ro *v1alpha1.Rollout) string { return ro.Name + "-" + ro.Status.CurrentPodHash }

// imagesByContainer returns the images of a pod template by container.
func imagesByContainer(template *corev1.PodTemplateSpec) (map[string]string, error) {
	if count := len(template.Spec.Containers); count > maxContainers {
		return nil, fmt.Errorf("it has %d containers: want %d at most", count, maxContainers)
	}
	images := map[string]string{}
	for _, c := range template.Spec.Containers {
		if len(c.Image) > maxImage {
			return nil, fmt.Errorf("the image of container %s has %d bytes: want %d at most", shorten(c.Name), len(c.Image), maxImage)
		}
		images[c.Name] = c.Image
	}
	return images, nil
}

// annotationsOf returns the first of the short annotations, in alphabetical order.
func annotationsOf(all map[string]string) map[string]string {
	kept := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if len(kept) < maxAnnotations && len(all[key]) <= maxAnnotation {
			kept[key] = all[key]
		}
	}
	return kept
}
