package kedify

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// role is the ClusterRole that grants what the router does; see deploy/rbac.
const role = "argo-rollouts-kedify-http"

// requestError returns an error that says what a failed API request was for and what to
// do.
func requestError(verb, namespace, name string, timeout time.Duration, err error) error {
	return rolloutsplugin.Request{
		Verb: verb, Object: fmt.Sprintf("HTTPScaledObject %s/%s", namespace, name), Resource: httpv1alpha1.HTTPScaledObjects.GroupResource().String(),
		Kept: "the split", Role: role, Manifests: "deploy/rbac", Timeout: timeout,
	}.Failed(err)
}

// missingError says that an HTTPScaledObject that is to carry a split does not exist.
type missingError struct {
	namespace, name string
	cause           error
}

func (e *missingError) Error() string {
	// For a path that the API server does not serve, the answer is not a Status object.
	if apierrors.HasStatusCause(e.cause, metav1.CauseTypeUnexpectedServerResponse) {
		return fmt.Sprintf("HTTPScaledObject %s/%s: the cluster does not know this kind: install Kedify's HTTP stack (its CRD httpscaledobjects.http.keda.sh): %v", e.namespace, e.name, e.cause)
	}
	return fmt.Sprintf("HTTPScaledObject %s/%s not found: create it (KEDA makes it from a ScaledObject with a kedify-http trigger), or correct its name in plugins[%q] of the Rollout", e.namespace, e.name, PluginName)
}
