package uninstall

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// A step that fails is not followed by those that need it, and all that is left is named.
func TestRunStopsAtAStepThatFails(t *testing.T) {
	var out bytes.Buffer
	var done []string
	does := func(name string, err error) step {
		return step{name, func(context.Context) error { done = append(done, name); return err }}
	}
	err := run(t.Context(), []step{does("first", nil), does("second", errors.New("ingress x: no")), does("third", nil)}, &out)
	if err == nil || !strings.Contains(err.Error(), "ingress x: no") || !strings.Contains(err.Error(), "left to do: second; third;") {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(done, " "); got != "first second" || out.String() != "done: first\n" {
		t.Errorf("done: %s; said: %s", got, out.String())
	}
}

// Whoever has deleted KEDA before is rid of the finalizers all the same, without which neither
// the HTTPScaledObjects nor their namespaces and definition could be deleted.
func TestKEDAIsGone(t *testing.T) {
	scheme, err := agent.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	object := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Finalizers: []string{agent.Finalizer}}}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for _, manager := range []string{agent.Name, "kubectl"} {
		ingress.ManagedFields = append(ingress.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "networking.k8s.io/v1",
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:ingressClassName":{}}}`)},
		})
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(object, ingress).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			kind, err := apiutil.GVKForObject(list, scheme)
			if err == nil && kind.Group == scaledobject.GroupVersion.Group {
				err = &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
			}
			if err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	var out bytes.Buffer
	if err := errors.Join(triggers(t.Context(), c, &out), release(t.Context(), c, &out), disown(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || len(object.Finalizers) > 0 {
		t.Errorf("%v, finalizers %v", err, object.Finalizers)
	}
	err = c.Get(t.Context(), client.ObjectKeyFromObject(ingress), ingress)
	if err != nil || slices.ContainsFunc(ingress.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == agent.Name }) {
		t.Errorf("%v, fields %v", err, ingress.ManagedFields)
	}
}
