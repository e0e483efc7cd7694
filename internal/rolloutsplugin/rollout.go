package rolloutsplugin

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// ReadRollout asks the API server for a Rollout, and returns nil if it does not exist.
// If that cannot be found out, it is an error: assume then that the Rollout owns what
// it has set. It is an error, too, if the API server does not know Rollouts at all, as
// while their CRD is being recreated.
func ReadRollout(ctx context.Context, objects *kube.Objects, name types.NamespacedName) (*v1alpha1.Rollout, error) {
	if len(validation.IsDNS1123Label(name.Namespace))+len(validation.IsDNS1123Subdomain(name.Name)) > 0 {
		return nil, nil // no Rollout has that name
	}
	ro := &v1alpha1.Rollout{}
	err := objects.Get(ctx, v1alpha1.RolloutGVR, name.Namespace, name.Name, ro)
	switch {
	case err == nil:
		return ro, nil
	case apierrors.IsNotFound(err) && !kube.IsPathUnknown(err):
		return nil, nil
	}
	return nil, fmt.Errorf("Rollout %s cannot be read: %w", name, err)
}
