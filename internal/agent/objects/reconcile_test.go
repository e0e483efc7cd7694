package objects

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/trigger"
)

func scaledWeb() *scaledobject.ScaledObject {
	return &scaledobject.ScaledObject{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: web.Namespace, Name: web.Name, UID: "so", Labels: map[string]string{"team": "a"},
			Annotations: map[string]string{"note": "a", corev1.LastAppliedConfigAnnotation: "{}"}, Finalizers: []string{"finalizer.keda.sh"},
		},
		Spec: scaledobject.Spec{ScaleTargetRef: scaledobject.ScaleTargetRef{Name: web.Name}, Triggers: []scaledobject.Trigger{
			{Type: "cpu", Metadata: map[string]string{"value": "1"}},
			{Type: scaledobject.ExternalPush, Metadata: map[string]string{
				scaledobject.TypeKey: scaledobject.KedifyHTTP, "hosts": "a.example.com", "service": "web", "port": "80", "trafficAutowire": "ingress",
			}},
		}},
	}
}

// made returns the HTTPScaledObject of a ScaledObject as the API server has it after the
// agent's apply.
func made(t *testing.T, so *scaledobject.ScaledObject) *httpv1alpha1.HTTPScaledObject {
	t.Helper()
	asked, err := trigger.Of(so)
	if err != nil {
		t.Fatal(err)
	}
	object, err := trigger.Object(so, asked, "web")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{"f:metadata": map[string]any{"f:annotations": fieldsOf(object.Annotations), "f:labels": fieldsOf(object.Labels)}}
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	object.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: agent.Name, Operation: metav1.ManagedFieldsOperationApply, APIVersion: object.APIVersion, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw},
	}}
	object.Status = statusOf(so, object, start)
	return object
}

func fieldsOf(m map[string]string) map[string]any {
	fields := map[string]any{}
	for key := range m {
		fields["f:"+key] = map[string]any{}
	}
	return fields
}

// What has not changed makes no request.
func TestNothingIsWrittenWhenNothingHasChanged(t *testing.T) {
	so := scaledWeb()
	object := made(t, so)
	object.Annotations["example.com/theirs"] = "1"
	object.Spec.Timeouts = &httpv1alpha1.Timeouts{ConditionWait: new(string)}
	write := func(what string) error { t.Error("a request: " + what); return nil }
	c := fakeClient(t, so, object).WithStatusSubresource(object).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return write("patch " + o.GetName())
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			return write("patch status " + o.GetName())
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			return write("delete " + o.GetName())
		},
	}).Build()
	recorder := record.NewFakeRecorder(10)
	r := &reconciler{Client: c, reporter: events.NewReporter(recorder), now: time.Now, free: map[types.UID]time.Time{}}
	if result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}); err != nil || result != (reconcile.Result{}) {
		t.Errorf("result %v, %v", result, err)
	}
	if len(recorder.Events) > 0 {
		t.Errorf("an Event: %s", <-recorder.Events)
	}
}

// "kubectl delete --cascade=orphan" takes the owner away. If the cache shows that first, the agent
// must not give the owner back: Kubernetes would then delete the object with it.
func TestAnOrphanIsNotGivenBackToADeletedScaledObject(t *testing.T) {
	so := scaledWeb()
	object := made(t, so)
	object.OwnerReferences = nil
	deleted := so.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: start}
	another := so.DeepCopy()
	another.UID = "another"
	for what, live := range map[string]client.Client{
		"being deleted": fakeClient(t, deleted).Build(), "gone": fakeClient(t).Build(), "made anew": fakeClient(t, another).Build(),
	} {
		c := fakeClient(t, so, object).WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
				t.Errorf("%s: a patch of %s", what, o.GetName())
				return nil
			},
		}).Build()
		r := &reconciler{Client: c, live: live, reporter: events.NewReporter(record.NewFakeRecorder(10)), now: time.Now, free: map[types.UID]time.Time{}}
		if result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}); err != nil || result != (reconcile.Result{}) {
			t.Errorf("%s: result %v, %v", what, result, err)
		}
	}
}

// An agent that has just begun to lead knows no Rollout yet, which is no reason to tell people
// that theirs is missing.
func TestNoRolloutIsToldOnceRolloutsAreKnown(t *testing.T) {
	so := scaledWeb()
	so.Spec.ScaleTargetRef = scaledobject.ScaleTargetRef{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: web.Name}
	recorder := record.NewFakeRecorder(10)
	r := &reconciler{Client: fakeClient(t, so).Build(), reporter: events.NewReporter(recorder), now: time.Now, free: map[types.UID]time.Time{}}
	result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web})
	if err != nil || result.RequeueAfter == 0 || len(recorder.Events) > 0 {
		t.Fatalf("%+v, %v, %d Events, expected another look and none", result, err, len(recorder.Events))
	}
	for _, known := range []int32{none, watched} {
		r.reporter = events.NewReporter(recorder)
		r.rollouts.Store(known)
		result, err = r.Reconcile(t.Context(), reconcile.Request{NamespacedName: web})
		if err != nil || result != (reconcile.Result{}) || len(recorder.Events) != 1 {
			t.Fatalf("%+v, %v, %d Events, expected one", result, err, len(recorder.Events))
		}
		if text := <-recorder.Events; !strings.Contains(text, "NoService there is no Rollout shop/web") {
			t.Errorf("got the Event %q", text)
		}
	}
}

// KEDA's own webhook may refuse what was written while it was away, too.
func TestATriggerThatCannotBeChangedIsTold(t *testing.T) {
	so := scaledWeb()
	so.Spec.Triggers[1].Type = scaledobject.KedifyHTTP
	c := fakeClient(t, so).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "scaledobjects"}, so.Name, errors.New("another ScaledObject scales the workload"))
		},
	}).Build()
	recorder := record.NewFakeRecorder(10)
	r := &reconciler{Client: c, reporter: events.NewReporter(recorder)}
	for range 2 {
		if err := r.correctType(t.Context(), so, &so.Spec.Triggers[1]); err == nil {
			t.Fatal("expected an error, so that it is tried again")
		}
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d Events, expected one", len(recorder.Events))
	}
	if text := <-recorder.Events; !strings.Contains(text, "TriggerTypeUnchanged") || !strings.Contains(text, "another ScaledObject scales the workload") {
		t.Errorf("got the Event %q", text)
	}
}

// What others write is no reason to write; what is not as asked for is.
func TestInStep(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(o *httpv1alpha1.HTTPScaledObject)
		want   bool
	}{
		"as made":               {func(*httpv1alpha1.HTTPScaledObject) {}, true},
		"an annotation more":    {func(o *httpv1alpha1.HTTPScaledObject) { o.Annotations["theirs"] = "1" }, true},
		"a label more":          {func(o *httpv1alpha1.HTTPScaledObject) { o.Labels["theirs"] = "1" }, true},
		"a finalizer more":      {func(o *httpv1alpha1.HTTPScaledObject) { o.Finalizers = append(o.Finalizers, "theirs") }, true},
		"a field more":          {func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.ScaledownPeriod = new(int32) }, true},
		"empty paths":           {func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.PathPrefixes = []string{} }, true},
		"another annotation":    {func(o *httpv1alpha1.HTTPScaledObject) { o.Annotations["note"] = "b" }, false},
		"an annotation less":    {func(o *httpv1alpha1.HTTPScaledObject) { delete(o.Annotations, "note") }, false},
		"a label less":          {func(o *httpv1alpha1.HTTPScaledObject) { delete(o.Labels, "team") }, false},
		"no finalizer":          {func(o *httpv1alpha1.HTTPScaledObject) { o.Finalizers = nil }, false},
		"no owner":              {func(o *httpv1alpha1.HTTPScaledObject) { o.OwnerReferences = nil }, false},
		"another owner":         {func(o *httpv1alpha1.HTTPScaledObject) { o.OwnerReferences[0].UID = "2" }, false},
		"paths":                 {func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.PathPrefixes = []string{"/"} }, false},
		"another Service":       {func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.ScaleTargetRef.Service = "other" }, false},
		"an annotation of once": {func(o *httpv1alpha1.HTTPScaledObject) { applied(o, "f:note", "f:was") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			object := made(t, scaledWeb())
			wanted := object.DeepCopy()
			tt.change(object)
			if got := inStep(object, wanted); got != tt.want {
				t.Errorf("in step: %v", got)
			}
		})
	}
}

// The cache holds less of each object, and nothing that changes what is made of it.
func TestCachedIsEnough(t *testing.T) {
	so := scaledWeb()
	light, err := scaledObject(so.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made(t, so), made(t, light.(*scaledobject.ScaledObject))); diff != "" {
		t.Errorf("of a ScaledObject another is made (-whole +cached):\n%s", diff)
	}
	if cached := light.(*scaledobject.ScaledObject); len(cached.Spec.Triggers) != 1 || cached.Annotations[corev1.LastAppliedConfigAnnotation] != "" {
		t.Errorf("cached is %+v", cached)
	}

	object := made(t, so)
	object.ManagedFields = append(object.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate})
	if _, err := httpScaledObject(object); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made(t, so), object); diff != "" {
		t.Errorf("the object is another (-made +cached):\n%s", diff)
	}

	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"a": "b"}}}
	ro.Spec.Template.Labels = map[string]string{"a": "b"}
	for _, strategy := range []v1alpha1.RolloutStrategy{
		{Canary: &v1alpha1.CanaryStrategy{StableService: "stable", CanaryService: "canary", Steps: make([]v1alpha1.CanaryStep, 3)}},
		{Canary: &v1alpha1.CanaryStrategy{PingPong: &v1alpha1.PingPongSpec{PingService: "ping", PongService: "pong"}}},
		{BlueGreen: &v1alpha1.BlueGreenStrategy{ActiveService: "active"}},
		{},
	} {
		ro.Spec.Strategy, ro.Status.Canary.StablePingPong = strategy, v1alpha1.PPPing
		light, err := Default(ro.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		cached := light.(*v1alpha1.Rollout)
		if got, want := trigger.StableService(cached), trigger.StableService(ro); got != want || cached.Spec.Template.Labels != nil || cached.Annotations != nil {
			t.Errorf("the Service is %q, want %q, of %+v", got, want, cached)
		}
	}
}

// An object whose requests pass no proxy yet is not ready, and a status that says the same
// has the same time.
func TestStatusOf(t *testing.T) {
	so := scaledWeb()
	object := made(t, so)
	object.Annotations[agent.NotWiredAnnotation] = notWiredYet
	object.Status = statusOf(so, object, start.Add(time.Minute))
	want := httpv1alpha1.HTTPScaledObjectStatus{
		TargetWorkload: "apps/v1/Deployment/web", TargetService: "web:80",
		Conditions: []httpv1alpha1.Condition{{
			Type: httpv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: httpv1alpha1.ReasonHTTPScaledObjectIsReady,
			Message: notWiredYet, Timestamp: "2026-01-01T12:01:00Z",
		}},
	}
	if diff := cmp.Diff(want, object.Status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, statusOf(so, object, start.Add(time.Hour))); diff != "" {
		t.Errorf("an hour later (-want +got):\n%s", diff)
	}
}

// Events of interceptors are told while they are news, on the ScaledObject that the object
// is made from.
func TestRelay(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(e *corev1.Event, o *httpv1alpha1.HTTPScaledObject)
		told   bool
	}{
		"new":                           {func(*corev1.Event, *httpv1alpha1.HTTPScaledObject) {}, true},
		"old":                           {func(e *corev1.Event, _ *httpv1alpha1.HTTPScaledObject) { e.LastTimestamp = metav1.NewTime(start) }, false},
		"of an earlier object":          {func(e *corev1.Event, _ *httpv1alpha1.HTTPScaledObject) { e.InvolvedObject.UID = "earlier" }, false},
		"of an object of somebody else": {func(_ *corev1.Event, o *httpv1alpha1.HTTPScaledObject) { o.OwnerReferences = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := start.Add(time.Hour)
			so := scaledWeb()
			object := made(t, so)
			object.UID = "object"
			event := &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: web.Namespace, Name: "web.1"},
				InvolvedObject: corev1.ObjectReference{Name: web.Name, UID: object.UID}, Reason: "OverBudget", Message: "no room", LastTimestamp: metav1.NewTime(now),
			}
			tt.change(event, object)
			recorder := record.NewFakeRecorder(10)
			r := &relay{Client: fakeClient(t, so, object, event).Build(), reporter: events.NewReporter(recorder), now: func() time.Time { return now }}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(event)}); err != nil {
				t.Fatal(err)
			}
			told := len(recorder.Events) == 1 && strings.Contains(<-recorder.Events, "Warning OverBudget interceptors say of its HTTPScaledObject: no room")
			if told != tt.told {
				t.Errorf("told: %v", told)
			}
		})
	}
}

// applied makes an object look as if the agent had applied these annotations.
func applied(object *httpv1alpha1.HTTPScaledObject, fields ...string) {
	raw := `{"f:metadata":{"f:annotations":{"` + strings.Join(fields, `":{},"`) + `":{}}}}`
	object.ManagedFields[0].FieldsV1 = &metav1.FieldsV1{Raw: []byte(raw)}
}
