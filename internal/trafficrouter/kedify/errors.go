package kedify

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// role is the ClusterRole that grants what the router does; see deploy/rbac.
const role = "argo-rollouts-kedify-http"

// requestError says of a failed API request what it was for and what to do.
func requestError(verb, namespace, name string, timeout time.Duration, err error) error {
	object := fmt.Sprintf("HTTPScaledObject %s/%s", namespace, name)
	after, _ := apierrors.SuggestsClientDelay(err)
	switch {
	case after > 0:
		return fmt.Errorf("%s: %s: the API server is too busy, and asks to come back in %d s; the split stays as it is, the controller retries: %w", object, verb, after, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: the controller's ServiceAccount may not %s httpscaledobjects.http.keda.sh: apply ClusterRole %s and bind it to that ServiceAccount (deploy/rbac): %w", object, verb, role, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %s: the API server does not accept the controller's credentials: %w", object, verb, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %s: no answer from the API server within %s; the split stays as it is, the controller retries: %w", object, verb, timeout, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s: %s: it keeps being changed by others; the controller retries: %w", object, verb, err)
	default:
		return fmt.Errorf("%s: %s failed; the split stays as it is, the controller retries: %w", object, verb, err)
	}
}

// missingError says that an HTTPScaledObject that a split is for is not there.
type missingError struct {
	namespace, name string
	cause           error
}

func (e *missingError) Error() string {
	// The answer for a path that the API server does not serve is no Status of its own.
	if apierrors.HasStatusCause(e.cause, metav1.CauseTypeUnexpectedServerResponse) {
		return fmt.Sprintf("HTTPScaledObject %s/%s: the cluster does not know this kind: install Kedify's HTTP stack (its CRD httpscaledobjects.http.keda.sh): %v", e.namespace, e.name, e.cause)
	}
	return fmt.Sprintf("HTTPScaledObject %s/%s not found: create it (KEDA makes it from a ScaledObject with a kedify-http trigger), or correct its name in plugins[%q] of the Rollout", e.namespace, e.name, PluginName)
}
