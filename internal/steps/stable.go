package steps

import (
	"context"
	"fmt"
	"regexp"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// NeedsStable tells whether a configuration may refer to the images of the stable version,
// which are not in the Rollout itself.
func NeedsStable(config []byte) bool { return imagesWord.Match(config) && oldWord.Match(config) }

var (
	imagesWord = regexp.MustCompile(`\bimages\b`)
	oldWord    = regexp.MustCompile(`\bold\b`)
)

// StableTemplate reads the pod template of a Rollout's stable version from its ReplicaSet
// at the API server. It returns nil for a Rollout that has no stable version.
func StableTemplate(ctx context.Context, objects *kube.Objects, ro *v1alpha1.Rollout) (*corev1.PodTemplateSpec, error) {
	if ro.Status.StableRS == "" {
		return nil, nil
	}
	// The controller names a ReplicaSet after its Rollout and its pod template hash
	// (rollout/sync.go).
	name := ro.Name + "-" + ro.Status.StableRS
	var rs appsv1.ReplicaSet
	if err := objects.Get(ctx, appsv1.SchemeGroupVersion.WithResource("replicasets"), ro.Namespace, name, &rs); err != nil {
		return nil, fmt.Errorf("the stable version's ReplicaSet %s/%s cannot be read: %w", ro.Namespace, name, err)
	}
	if owner := metav1.GetControllerOf(&rs); owner == nil || owner.UID != ro.UID {
		return nil, fmt.Errorf("ReplicaSet %s/%s is not the Rollout's", ro.Namespace, name)
	}
	return &rs.Spec.Template, nil
}
