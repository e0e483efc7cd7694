package controllertest

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// leaseName is the name of the Lease that the leading controller holds.
const leaseName = "argo-rollouts-controller-lock"

// releaseLease releases the lease of a controller whose pod is gone, as client-go's
// ReleaseOnCancel does. Argo Rollouts does not set that, so that a controller that was
// restarted does nothing for up to 15 s, until the lease of its predecessor has
// expired. The lease of a pod that still exists, such as one whose container was
// killed, is left alone.
func releaseLease(ctx context.Context, c *e2etest.Cluster, namespace string) error {
	leases := c.Kube.CoordinationV1().Leases(namespace)
	lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // no controller has led yet
	}
	if err != nil || lease.Spec.HolderIdentity == nil {
		return err
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // <host name>_<UUID>
	if _, err := c.Kube.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	lease.Spec.HolderIdentity = nil
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: "e2e"}); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	return nil // where there was a conflict, a controller has just taken it
}
