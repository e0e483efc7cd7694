package gatewayapi

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// role is the ClusterRole that grants what the router does; see
// deploy/gatewayapi.
const role = "argo-rollouts-gatewayapi"

// requestError says what a failed API request was for, and what to do.
func requestError(verb, what string, kind Kind, timeout time.Duration, err error) error {
	return rolloutsplugin.Request{
		Verb: verb, Object: what, Resource: kind.Resource() + "." + Group,
		Kept: "the route", Role: role, Manifests: "deploy/gatewayapi", Timeout: timeout,
	}.Failed(err)
}

// missingError says that a route that a Rollout names does not exist.
func missingError(ref routeRef, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s not found: create it, or correct its name or namespace in the Rollout's configuration", ref)
	}
	return fmt.Errorf("%s: %w", ref, err)
}
