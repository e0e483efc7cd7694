package trigger

import (
	"errors"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts"
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// TargetsRollout tells whether a ScaledObject scales a Rollout: then its Service is the
// Rollout's.
func TargetsRollout(so *scaledobject.ScaledObject) bool {
	target := so.Spec.ScaleTargetRef
	version, err := schema.ParseGroupVersion(target.APIVersion)
	return err == nil && version.Group == rollouts.Group && target.Kind == rollouts.RolloutKind
}

// Service returns the Service that a trigger's requests go to, given the Rollout that the
// ScaledObject scales, nil if it scales something else. A trigger that names another Service
// than the Rollout is worth a warning.
func Service(so *scaledobject.ScaledObject, t *scaledobject.Trigger, ro *v1alpha1.Rollout) (service, warning string, err error) {
	named := t.Metadata[serviceKey]
	if ro == nil {
		if named == "" {
			err = errors.New("metadata of the " + scaledobject.KedifyHTTP + " trigger: service is missing: set it to the Service in front of the workload (only a Rollout names its Service itself)")
		}
		return named, "", err
	}
	service = StableService(ro)
	if service == "" {
		return "", "", fmt.Errorf("Rollout %s/%s names no Service for its stable side: set spec.strategy.canary.stableService, pingPong or spec.strategy.blueGreen.activeService",
			ro.Namespace, ro.Name)
	}
	if named != "" && named != service {
		warning = fmt.Sprintf("the %s trigger names the Service %.253q, Rollout %s/%s has %q for its stable side now, which is taken: remove service from the trigger's metadata",
			scaledobject.KedifyHTTP, named, ro.Namespace, ro.Name, service)
	}
	return service, warning, nil
}

// StableService returns the Service of a Rollout's stable side, as it is now; empty for none.
func StableService(ro *v1alpha1.Rollout) string {
	if blueGreen := ro.Spec.Strategy.BlueGreen; blueGreen != nil {
		return blueGreen.ActiveService
	}
	stable, _ := rolloutspec.Services(ro)
	return stable
}
