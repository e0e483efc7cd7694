package contour

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// policy is a ValidatingAdmissionPolicy that refuses some updates of the HTTPRoutes of
// one namespace, whoever sends them. It ends with the test at the latest.
type policy struct {
	n *e2etest.Namespace
	// manifest has the policy and its binding.
	manifest string
	// route and patch are an update, as a JSON patch, that the policy refuses.
	route, patch string
}

// policyMessage is what the API server answers for a refused update.
const policyMessage = "the platform team does not allow this"

const policyManifest = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: NAMESPACE
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: NAMESPACE}
    resourceRules:
      - apiGroups: [gateway.networking.k8s.io]
        apiVersions: ["*"]
        operations: [UPDATE]
        resources: [httproutes]
  validations:
    - expression: EXPRESSION
      message: MESSAGE
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: NAMESPACE
spec:
  policyName: NAMESPACE
  validationActions: [Deny]
`

// refuse makes a policy that allows only updates for which a CEL expression is true, and
// waits until it is in force: until it refuses an update of the named route, which is a
// JSON patch.
func refuse(t *testing.T, n *e2etest.Namespace, expression, route, patch string) *policy {
	t.Helper()
	fill := strings.NewReplacer("NAMESPACE", n.Name, "EXPRESSION", fmt.Sprintf("%q", expression), "MESSAGE", policyMessage)
	p := &policy{n, fill.Replace(policyManifest), route, patch}
	n.Apply(p.manifest)
	t.Cleanup(func() {
		admission := n.Kube.AdmissionregistrationV1()
		for kind, remove := range map[string]func(context.Context, string, metav1.DeleteOptions) error{
			"binding": admission.ValidatingAdmissionPolicyBindings().Delete, "policy": admission.ValidatingAdmissionPolicies().Delete,
		} {
			if err := remove(context.Background(), n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("deleting the admission %s %s: %v", kind, n.Name, err)
			}
		}
	})
	p.await(t, "the policy is in force", func(err error) error {
		if err == nil {
			return errors.New("the update is allowed")
		}
		if !strings.Contains(err.Error(), policyMessage) {
			return err
		}
		return nil
	})
	return p
}

// lift removes the policy, and waits until it is not in force any more.
func (p *policy) lift(t *testing.T) {
	t.Helper()
	p.n.Delete(p.manifest)
	p.await(t, "the policy is lifted", func(err error) error { return err })
}

// await waits until check returns nil for the answer to a dry run of the update.
func (p *policy) await(t *testing.T, what string, check func(error) error) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, what, func(ctx context.Context) error {
		_, err := httpRoutes.client(p.n).Patch(ctx, p.route, types.JSONPatchType, []byte(p.patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return check(err)
	})
}
