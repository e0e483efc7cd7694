package ingress

import (
	"context"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	eventrecord "k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
)

// What is said of several Ingresses and objects is said once, in whichever order the cache
// lists them: a text that changes would be written again for ever.
func TestNothingIsWrittenTwice(t *testing.T) {
	scheme, err := agent.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	one, two := ingress("nginx", "a.test / Prefix web:80", "a.test /api Prefix api:81"), ingress("nginx", "a.test /x Exact web:81")
	two.Name, two.UID = "two", "uid-of-two"
	objects := []client.Object{one, two}
	for _, o := range []httpv1alpha1.HTTPScaledObject{object("web", "a.test", "/x"), object("api", "a.test", "/api")} {
		objects = append(objects, &o)
	}
	for _, o := range objects {
		o.SetResourceVersion("")
	}
	backwards, writes := false, 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if !backwards {
				return err
			}
			switch list := list.(type) {
			case *networkingv1.IngressList:
				slices.Reverse(list.Items)
			case *httpv1alpha1.HTTPScaledObjectList:
				slices.Reverse(list.Items)
			}
			return err
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, patch, options...)
		},
	}).Build()
	recorder := eventrecord.NewFakeRecorder(100)
	r := &reconciler{Client: c, ownIngresses: true, reporter: events.NewReporter(recorder), now: time.Now, namespaces: make(map[string]*memory)}
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: "shop"}}
	for range 3 {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		backwards = !backwards
	}
	if writes != 2 || len(recorder.Events) != 2 {
		t.Errorf("%d writes, want one for each object; %d Events, want one for each Ingress", writes, len(recorder.Events))
	}
}
