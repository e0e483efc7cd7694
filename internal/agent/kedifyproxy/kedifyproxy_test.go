package kedifyproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// world is a cluster with the ConfigMap, and an agent's reconciler.
type world struct {
	*reconciler
	t      *testing.T
	writes []string
	// fail says which write fails: an agent that is killed between two writes.
	fail     func(write string) error
	recorder *record.FakeRecorder
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		httpv1alpha1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, fail: func(string) error { return nil }, recorder: record.NewFakeRecorder(100)}
	written := func(verb string, object any) error {
		named := object.(interface {
			GetName() string
			GetNamespace() string
		})
		kind := object.(runtime.Object).GetObjectKind().GroupVersionKind().Kind
		write := fmt.Sprintf("%s %s %s/%s", verb, kind, named.GetNamespace(), named.GetName())
		if err := w.fail(write); err != nil {
			return err
		}
		w.writes = append(w.writes, write)
		return nil
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().
		WithIndex(&httpv1alpha1.HTTPScaledObject{}, ofAgent, isOfAgent).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
				if slices.Contains(options, client.ApplyOption(client.DryRunAll)) {
					if err := written("try", o); err != nil {
						return err
					}
					// The fake client would write it.
					return fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().Build().Apply(ctx, o, options...)
				}
				if err := written("apply", o); err != nil {
					return err
				}
				return c.Apply(ctx, o, options...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				if err := written("delete", o); err != nil {
					return err
				}
				return c.Delete(ctx, o, options...)
			},
		}).Build()
	w.reconciler = newReconciler(c, &agent.Settings{Namespace: "keda", KedifyProxyConfigMap: "template"}, events.NewReporter(w.recorder))
	for _, p := range parts {
		w.live[p.name] = summaries{c}
	}
	w.configure(released(t))
	return w
}

// summaries reads as the caches of an agent do.
type summaries struct{ client.Reader }

func (s summaries) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	kind := object.GetObjectKind().GroupVersionKind()
	if err := s.Reader.Get(ctx, key, object, options...); err != nil {
		return err
	}
	small, err := summary(object)
	if err != nil {
		return err
	}
	*object.(*metav1.PartialObjectMetadata) = *small
	object.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// configure makes the ConfigMap have other data.
func (w *world) configure(data map[string]string) {
	w.t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "keda", Name: "template", UID: "template"}}
	err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(c), c)
	c.Data = data
	if err == nil {
		err = w.client.Update(w.t.Context(), c)
	} else {
		err = w.client.Create(w.t.Context(), c)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// reconcile reconciles a namespace, and returns what was written in short.
func (w *world) reconcile(namespace string) (string, error) {
	w.t.Helper()
	w.writes = nil
	_, err := w.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}})
	var short []string
	for _, write := range w.writes {
		if !strings.HasPrefix(write, "try") {
			short = append(short, write)
		}
	}
	return strings.Join(short, "\n"), err
}

// expect reconciles a namespace, which writes what is given, and nothing in a second time.
func (w *world) expect(namespace, want string) {
	w.t.Helper()
	got, err := w.reconcile(namespace)
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Fatalf("writes (-want +got):\n%s", diff)
	}
	if got, err := w.reconcile(namespace); err != nil || len(w.writes) > 0 {
		w.t.Fatalf("an unchanged namespace has writes: %s %v", got, err)
	}
}

func (w *world) event() string {
	select {
	case text := <-w.recorder.Events:
		return text
	default:
		return ""
	}
}

// object is an HTTPScaledObject that the agent has made.
func object(namespace, name string) *httpv1alpha1.HTTPScaledObject {
	yes := true
	return &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: scaledobject.GroupVersion.String(), Kind: scaledobject.Kind, Name: name, UID: "1", Controller: &yes},
	}}}
}

const all = `apply ServiceAccount shop/kedify-proxy
apply ConfigMap shop/kedify-proxy
apply NetworkPolicy shop/kedify-proxy
apply PodDisruptionBudget shop/kedify-proxy
apply Service shop/kedify-proxy-admin
apply Service shop/kedify-proxy
apply Deployment shop/kedify-proxy`

const none = `delete Deployment shop/kedify-proxy
delete Service shop/kedify-proxy
delete Service shop/kedify-proxy-admin
delete PodDisruptionBudget shop/kedify-proxy
delete NetworkPolicy shop/kedify-proxy
delete ConfigMap shop/kedify-proxy
delete ServiceAccount shop/kedify-proxy`

// A kedify-proxy comes with the first HTTPScaledObject of the agent's, and goes with the last.
func TestComesWithTheFirstGoesWithTheLast(t *testing.T) {
	theirs := object("shop", "theirs")
	theirs.OwnerReferences = nil
	w := newWorld(t, theirs)
	w.expect("shop", "")

	first, last := object("shop", "first"), object("shop", "last")
	last.Finalizers = []string{agent.Finalizer}
	for _, o := range []client.Object{first, last} {
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.expect("shop", all)
	w.expect("other", "")

	// As with kubectl delete --cascade=orphan of the ScaledObject.
	orphan := object("shop", "orphan")
	orphan.OwnerReferences, orphan.Finalizers = nil, last.Finalizers
	if changesHands(event.UpdateEvent{ObjectOld: last, ObjectNew: orphan}) || isOfAgent(orphan) == nil {
		t.Error("an HTTPScaledObject that loses its owner takes kedify-proxy away from under its Ingresses")
	}

	for _, o := range []client.Object{first, last} {
		if err := w.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.expect("shop", "") // the last is there as long as its finalizer is
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(last), last); err != nil {
		t.Fatal(err)
	}
	last.Finalizers = nil
	if err := w.client.Update(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	w.expect("shop", none)
}

// An agent that is killed between any two writes leaves what the next one completes.
func TestResumes(t *testing.T) {
	for writes := range len(parts) {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			w := newWorld(t, object("shop", "app"))
			left := writes
			w.fail = func(write string) error {
				if strings.HasPrefix(write, "try") {
					return nil
				}
				if left--; left < 0 {
					return errors.New("killed")
				}
				return nil
			}
			if got, err := w.reconcile("shop"); err == nil || strings.Count(got+"\n", "apply") != writes {
				t.Fatalf("expected to be killed after %d writes, got %v after:\n%s", writes, err, got)
			}
			w.fail = func(string) error { return nil }
			if _, err := w.reconcile("shop"); err != nil {
				t.Fatal(err)
			}
			for _, p := range parts {
				if found, err := w.live.get(t.Context(), p, "shop"); err != nil || found == nil {
					t.Errorf("%s: %v, %v", p, found, err)
				}
			}
			w.expect("shop", "")
		})
	}
}

// What somebody else changes of ours is put back; what they add stays.
func TestOthersWrite(t *testing.T) {
	w := newWorld(t, object("shop", "app"))
	w.expect("shop", all)
	key := types.NamespacedName{Namespace: "shop", Name: agent.ProxyService}

	d := &appsv1.Deployment{}
	get := func(o client.Object) {
		t.Helper()
		if err := w.client.Get(t.Context(), key, o); err != nil {
			t.Fatal(err)
		}
	}
	update := func(o client.Object) {
		t.Helper()
		if err := w.client.Update(t.Context(), o, client.FieldOwner("somebody")); err != nil {
			t.Fatal(err)
		}
	}
	get(d)
	d.Spec.Template.Spec.Containers[0].Image = "mine"
	d.Annotations["mine"] = "too"
	update(d)
	w.expect("shop", "apply Deployment shop/kedify-proxy")
	get(d)
	if image := d.Spec.Template.Spec.Containers[0].Image; image == "mine" || d.Annotations["mine"] != "too" {
		t.Errorf("image %q, annotations %v: expected the template's image, and somebody's annotation", image, d.Annotations)
	}

	s := &corev1.Service{}
	get(s)
	if err := w.client.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.expect("shop", "apply Service shop/kedify-proxy")
}

// One that is not ours is used, and never changed.
func TestNotOurs(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: agent.ProxyService}
	withoutTheAccount := strings.TrimPrefix(all, "apply ServiceAccount shop/kedify-proxy\n")
	for name, test := range map[string]struct {
		theirs client.Object
		want   string
	}{
		"Service":        {&corev1.Service{ObjectMeta: meta}, ""},
		"Deployment":     {&appsv1.Deployment{ObjectMeta: meta}, ""},
		"ServiceAccount": {&corev1.ServiceAccount{ObjectMeta: meta}, withoutTheAccount},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, object("shop", "app"), test.theirs)
			w.expect("shop", test.want)
			if err := w.client.Delete(t.Context(), object("shop", "app")); err != nil {
				t.Fatal(err)
			}
			if got, err := w.reconcile("shop"); err != nil || strings.Count(got, "delete") != strings.Count(test.want, "apply") {
				t.Errorf("%v, expected ours to be deleted, and theirs not:\n%s", err, got)
			}
		})
	}
}

// A namespace that is refused, and then goes, does not keep the next one from being told.
func TestRefusedNamespaceGoes(t *testing.T) {
	w := newWorld(t, object("shop", "app"), object("other", "app"))
	w.fail = func(string) error { return errors.New("refused") }
	for _, namespace := range []string{"shop", "other"} {
		if _, err := w.reconcile(namespace); err == nil {
			t.Fatal("expected an error")
		}
		if text := w.event(); !strings.Contains(text, "to namespace "+namespace+": refused") {
			t.Errorf("got the Event %q, expected one about %s", text, namespace)
		}
		w.fail = func(string) error { return nil }
		if err := w.client.Delete(t.Context(), object(namespace, "app")); err != nil {
			t.Fatal(err)
		}
		w.expect(namespace, "")
		w.fail = func(string) error { return errors.New("refused") }
	}
}

// A change of the ConfigMap reaches the objects that it is about. One that cannot be read, or
// that the API server refuses, is told on it, and all objects stay.
func TestConfigMapChanges(t *testing.T) {
	data := released(t)
	w := newWorld(t, object("shop", "app"), object("other", "app"))
	w.expect("shop", all)
	w.expect("other", strings.ReplaceAll(all, "shop/", "other/"))

	data = replaced(t, data, "deployment.yaml", "replicas: 2", "replicas: 3")
	w.configure(data)
	if requests := w.allNamespaces(t.Context(), nil); len(requests) != 2 {
		t.Errorf("a change of the ConfigMap is for %v, expected both namespaces", requests)
	}
	w.expect("shop", "apply Deployment shop/kedify-proxy")
	w.expect("other", "apply Deployment other/kedify-proxy")

	w.configure(map[string]string{"deployment.yaml": "a: b"})
	w.expect("shop", "")
	if text := w.event(); !strings.HasPrefix(text, "Warning KedifyProxyTemplate ") || !strings.Contains(text, "deployment.yaml") {
		t.Errorf("got the Event %q", text)
	}

	w.configure(replaced(t, replaced(t, data, "services.yaml", "port: 9901", "port: 9902"), "deployment.yaml", "replicas: 3", "replicas: 4"))
	w.fail = func(write string) error {
		if strings.Contains(write, "Deployment") {
			return errors.New("refused")
		}
		return nil
	}
	for _, namespace := range []string{"shop", "other", "shop"} {
		if got, err := w.reconcile(namespace); err == nil || got != "" {
			t.Errorf("%v, expected an error, and no object changed:\n%s", err, got)
		}
	}
	if text, second := w.event(), w.event(); !strings.HasPrefix(text, "Warning KedifyProxyRefused applying Deployment kedify-proxy to namespace shop: refused") || second != "" {
		t.Errorf("got the Events %q, %q", text, second)
	}

	delete(data, "poddisruptionbudget.yaml")
	w.configure(data)
	w.fail = func(string) error { return nil }
	w.expect("shop", "delete PodDisruptionBudget shop/kedify-proxy")

	// Without a ConfigMap the last good one counts.
	if err := w.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "keda", Name: "template"}}); err != nil {
		t.Fatal(err)
	}
	w.expect("shop", "")
}

// The fields that the agent owns are the same in whatever order they come; others' fields do
// not count.
func TestSummary(t *testing.T) {
	fieldsOf := func(raw string, more ...metav1.ManagedFieldsEntry) (fields, scaled string) {
		t.Helper()
		entry := func(raw string) metav1.ManagedFieldsEntry {
			return metav1.ManagedFieldsEntry{Manager: agent.Name, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: &metav1.FieldsV1{Raw: []byte(raw)}}
		}
		small, err := summary(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: append(more, entry(raw))}})
		if err != nil {
			t.Fatal(err)
		}
		return small.Annotations[fieldsAnnotation], small.Annotations[scaledAnnotation]
	}
	one, scaled := fieldsOf(`{"f:b":{},"f:a":{".":{},"k:{}":{}}}`)
	if one == "" || scaled != "" {
		t.Errorf("fields %q, scaled %q: expected fields of nobody who scales", one, scaled)
	}
	by := metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "scale", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{}`)}}
	if other, scaled := fieldsOf(`{"f:a":{"k:{}":{},".":{}},"f:b":{}}`, by); other != one || scaled == "" {
		t.Errorf("fields %q, scaled %q: expected fields %q of somebody who scales", other, scaled, one)
	}
	if other, _ := fieldsOf(`{"f:b":{}}`); other == one {
		t.Error("a field less has the same hash")
	}
}

func TestRemoveAll(t *testing.T) {
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "theirs", Name: agent.ProxyService}}
	w := newWorld(t, object("shop", "app"), theirs)
	w.expect("shop", all)
	if err := RemoveAll(t.Context(), withName{w.client}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(none, strings.Join(w.writes, "\n")); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// withName selects by metadata.name, which the fake client does not.
type withName struct{ client.Client }

func (c withName) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	selected := client.ListOptions{}
	selected.ApplyOptions(options)
	if err := c.Client.List(ctx, list); err != nil {
		return err
	}
	all := list.(*metav1.PartialObjectMetadataList)
	all.Items = slices.DeleteFunc(all.Items, func(o metav1.PartialObjectMetadata) bool {
		name, _ := selected.FieldSelector.RequiresExactMatch("metadata.name")
		return o.Name != name
	})
	return nil
}
