package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// role is the ClusterRole that grants what the router does; see
// deploy/gatewayapi.
const role = "argo-rollouts-gatewayapi"

// requestError says of a failed API request what it was for and what to do.
func requestError(verb, what string, kind Kind, timeout time.Duration, err error) error {
	after, _ := apierrors.SuggestsClientDelay(err)
	switch {
	case after > 0:
		return fmt.Errorf("%s: %s: the API server is too busy, and asks to come back in %d s; the route stays as it is, the controller retries: %w", what, verb, after, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: the controller's ServiceAccount may not %s %ss.%s: apply ClusterRole %s and bind it to that ServiceAccount (deploy/gatewayapi): %w",
			what, verb, strings.ToLower(string(kind)), Group, role, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %s: the API server does not accept the controller's credentials: %w", what, verb, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %s: no answer from the API server within %s; the route stays as it is, the controller retries: %w", what, verb, timeout, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s: %s: it keeps being changed by others; the controller retries: %w", what, verb, err)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%s: the API server does not take the route as it would have to be; it stays as it is: %w", what, err)
	default:
		return fmt.Errorf("%s: %s failed; the route stays as it is, the controller retries: %w", what, verb, err)
	}
}

// missingError says that a route that a Rollout names is not there.
func missingError(ref routeRef, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s not found: create it, or correct its name or namespace in the Rollout's configuration", ref)
	}
	return fmt.Errorf("%s: %w", ref, err)
}
