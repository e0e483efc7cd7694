package controllertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// KeepAccess puts the plugin's permissions back when the test ends.
func KeepAccess(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := e2etest.TryShell(context.Background(), "kubectl apply -k "+e2etest.Repository(t, "deploy/rbac")); err != nil {
			t.Errorf("putting the permissions back: %v", err)
		}
	})
}

// AwaitAccess waits until the API server answers as wanted whether the controller may
// do something, such as "patch", with HTTPScaledObjects. namespace is kubectl's flag:
// "-n name", or "-A".
func AwaitAccess(t testing.TB, verb, namespace string, want bool) {
	t.Helper()
	line := "kubectl auth can-i " + verb + " httpscaledobjects.http.keda.sh --as=system:serviceaccount:argo-rollouts:argo-rollouts " + namespace
	answer := "no\n"
	if want {
		answer = "yes\n"
	}
	e2etest.Eventually(t, e2etest.Patience, line+" = "+answer, func(ctx context.Context) error {
		got, err := e2etest.TryShell(ctx, line+" || true")
		if err == nil && got != answer {
			err = fmt.Errorf("it says %q", got)
		}
		return err
	})
}
