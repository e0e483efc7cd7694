package objects

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func fakeClient(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme, err := agent.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
}

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

// deleted returns an HTTPScaledObject that is being deleted.
func deleted() *httpv1alpha1.HTTPScaledObject {
	at := metav1.NewTime(start)
	return &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
		Namespace: web.Namespace, Name: web.Name, UID: "1", DeletionTimestamp: &at, Finalizers: []string{agent.Finalizer},
	}}
}

// An object goes ten seconds after the last look at which an Ingress pointed at it.
func TestReleaseWaitsForIngresses(t *testing.T) {
	ingress := wired()
	c := fakeClient(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: web.Namespace}}, deleted(), ingress).Build()
	now := start
	r := &reconciler{Client: c, now: func() time.Time { return now }, free: map[types.UID]time.Time{}}
	for _, step := range []struct {
		after  time.Duration
		names  []string
		again  time.Duration
		reason string
	}{
		{0, []string{"other", "web"}, time.Second, "an Ingress points at it"},
		{time.Minute, []string{"other", "web"}, time.Second, "an Ingress points at it still"},
		{time.Minute, []string{"other"}, 10 * time.Second, "its Ingress was just put back"},
		{9 * time.Second, []string{"other"}, time.Second, "its Ingress was put back nine seconds ago"},
		{0, []string{"web"}, time.Second, "its Ingress points at it again"},
		{time.Second, nil, 10 * time.Second, "its Ingress was just put back again"},
		{10 * time.Second, nil, 0, "ten seconds are over"},
	} {
		now = now.Add(step.after)
		ingress.Annotations = wired(step.names...).Annotations
		if err := c.Update(t.Context(), ingress); err != nil {
			t.Fatal(err)
		}
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Get(t.Context(), web, new(httpv1alpha1.HTTPScaledObject))
		if stays := !apierrors.IsNotFound(err); stays != (step.again > 0) || result.RequeueAfter != step.again {
			t.Errorf("%s: stays %v, looked at again after %v", step.reason, stays, result.RequeueAfter)
		}
	}
}

// Where the namespace goes nothing is put back, and nothing waits.
func TestReleaseInANamespaceThatIsDeleted(t *testing.T) {
	at := metav1.NewTime(start)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: web.Namespace, DeletionTimestamp: &at, Finalizers: []string{"test"}}}
	c := fakeClient(t, namespace, wired("web"), deleted()).Build()
	r := &reconciler{Client: c, now: time.Now, free: map[types.UID]time.Time{}}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), web, new(httpv1alpha1.HTTPScaledObject)); !apierrors.IsNotFound(err) {
		t.Errorf("it is there still: %v", err)
	}
}

// wired returns an Ingress with paths that point at kedify-proxy for objects of these names.
func wired(names ...string) *networkingv1.Ingress {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = `{"pathType":"Exact","path":"/` + name + `","service":"stable","port":{"number":80},"object":"` + name + `"}`
	}
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: web.Namespace, Name: "web", Annotations: map[string]string{agent.WiredPathsAnnotation: "[" + strings.Join(paths, ",") + "]"},
	}}
}
