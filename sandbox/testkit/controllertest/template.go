package controllertest

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Template returns the pod template of the controller's Deployment.
func Template(t testing.TB) corev1.PodTemplateSpec {
	t.Helper()
	deployment, err := e2etest.Connect(t).Kube.AppsV1().Deployments(e2etest.ControllerNamespace).
		Get(t.Context(), e2etest.ControllerDeployment, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return deployment.Spec.Template
}

// KeepTemplate returns the pod template of the controller's Deployment, and puts it
// back when the test ends.
func KeepTemplate(t testing.TB) corev1.PodTemplateSpec {
	t.Helper()
	before := Template(t)
	if len(before.Spec.InitContainers) != 0 {
		t.Fatalf("the cluster is not as it should be; the controller has init containers: %+v", before.Spec.InitContainers)
	}
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template", "value": before}})
	if err != nil {
		t.Fatal(err)
	}
	c := e2etest.Connect(t)
	PutBack(t, "putting the controller's Deployment back", func(ctx context.Context) error {
		_, err := c.Kube.AppsV1().Deployments(e2etest.ControllerNamespace).
			Patch(ctx, e2etest.ControllerDeployment, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "e2e"})
		return err
	})
	return before
}
