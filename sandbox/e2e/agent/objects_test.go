package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// app is the name of the application, its ScaledObject and its HTTPScaledObject.
const app = "app"

// scaled is a ScaledObject of a Rollout "app", unless kind says otherwise.
type scaled struct {
	kind        string
	annotations map[string]string
	// metadata is that of the kedify-http trigger beside hosts and port; "-" takes a key
	// away.
	metadata map[string]string
}

// manifest returns the ScaledObject, in JSON, which is YAML.
func (s scaled) manifest(host string) string {
	metadata := map[string]string{"hosts": host, "port": "80"}
	maps.Copy(metadata, s.metadata)
	maps.DeleteFunc(metadata, func(_, value string) bool { return value == "-" })
	target := map[string]string{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": app}
	if s.kind != "" {
		target = map[string]string{"apiVersion": "apps/v1", "kind": s.kind, "name": app}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "keda.sh/v1alpha1",
		"kind":       "ScaledObject",
		"metadata":   map[string]any{"name": app, "annotations": s.annotations, "labels": map[string]string{"team": "checkout"}},
		"spec": map[string]any{
			"minReplicaCount": 1, "maxReplicaCount": 4, "scaleTargetRef": target,
			"triggers": []any{map[string]any{"type": "kedify-http", "metricType": "AverageValue", "metadata": metadata}},
		},
	})
	if err != nil {
		panic(err) // it is made of text and numbers
	}
	return "---\n" + string(text) + "\n"
}

// canary is an App with one weight to stop at.
func canary() e2etest.App { return e2etest.App{Name: app, Steps: "- setWeight: 20\n- pause: {}"} }

// applyScaled applies an App without its HTTPScaledObject, and its ScaledObject, and waits for
// the HTTPScaledObject.
func applyScaled(n *e2etest.Namespace, a e2etest.App, s scaled) {
	n.Apply(a.Services() + a.Rollout() + s.manifest(n.Name+".test"))
	n.AwaitHealthy(app, e2etest.Image("blue"))
}

// awaitObject waits until the HTTPScaledObject is as it should be.
func awaitObject(t *testing.T, n *e2etest.Namespace, what string, check func(o *unstructured.Unstructured) error) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	e2etest.Eventually(t, e2etest.Patience, "HTTPScaledObject "+app+": "+what, func(ctx context.Context) (err error) {
		if found, err = n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(n.Name).Get(ctx, app, metav1.GetOptions{}); err != nil {
			return err
		}
		return check(found)
	})
	return found
}

// field returns a field of an object as text.
func field(o *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return fmt.Sprint(value)
}

func hasField(want string, path ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if got := field(o, path...); got != want {
			return fmt.Errorf("%s is %s, want %s", strings.Join(path, "."), got, want)
		}
		return nil
	}
}

func isOwned(o *unstructured.Unstructured) error {
	if owner := metav1.GetControllerOf(o); owner == nil || owner.Kind != "ScaledObject" || owner.Name != app {
		return fmt.Errorf("its owner is %v", owner)
	}
	return nil
}

// The HTTPScaledObject has what the trigger says, and the labels and annotations of the
// ScaledObject, as long as it has them. What others write on it stays, and it is one object
// all the time.
func TestAnObjectFollowsItsScaledObject(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	first := scaled{annotations: map[string]string{"example.com/a": "1", "example.com/b": "1"}, metadata: map[string]string{
		"pathPrefixes": "/a, /b", "targetValue": "0.5", "trafficAutowire": "httproute",
	}}
	applyScaled(n, canary(), first)
	made := awaitObject(t, n, "is there", isOwned)
	if got, want := field(made, "spec"), field(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"hosts": []any{n.Name + ".test"}, "pathPrefixes": []any{"/a", "/b"},
		"replicas":       map[string]any{"min": 1, "max": 4},
		"scaleTargetRef": map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": app, "service": app + "-stable", "port": 80},
		"scalingMetric":  map[string]any{"requestRate": map[string]any{"targetValue": 1, "window": "1m", "granularity": "1s"}},
	}}}, "spec"); got != want {
		t.Errorf("spec (-want +got):\n%s", cmp.Diff(want, got))
	}
	for key, want := range map[string]string{
		"example.com/a": "1", "http.kedify.io/traffic-autowire": "httproute", "httpscaledobject.keda.sh/skip-scaledobject-creation": "true",
		"http.kedify.io/not-wired": "",
	} {
		if got := made.GetAnnotations()[key]; got != want {
			t.Errorf("annotation %s is %q, want %q", key, got, want)
		}
	}
	if !slices.Contains(made.GetFinalizers(), "http.kedify.io/agent") || made.GetLabels()["team"] != "checkout" {
		t.Errorf("finalizers %v, labels %v", made.GetFinalizers(), made.GetLabels())
	}
	n.AwaitEvent("ScaledObject", app, "AutowireNotSupported", "httproute")
	if columns := n.Kubectl("get", "httpscaledobject", app, "--no-headers"); !slices.Contains(strings.Fields(columns), "argoproj.io/v1alpha1/Rollout/app") ||
		!slices.Contains(strings.Fields(columns), "app-stable:80") || !slices.Contains(strings.Fields(columns), "True") {
		t.Errorf("kubectl get shows %s", columns)
	}
	n.Kubectl("patch", "httpscaledobject", app, "--type=merge", "-p", `{"metadata":{"annotations":{"example.com/theirs":"1"}},"spec":{"timeouts":{"conditionWait":"3s"}}}`)

	second := scaled{annotations: map[string]string{"example.com/a": "2"}, metadata: map[string]string{"scalingMetric": "concurrency", "service": "other"}}
	n.Apply(second.manifest(n.Name + ".test"))
	followed := awaitObject(t, n, "follows", func(o *unstructured.Unstructured) error {
		return errors.Join(
			hasField(`map[concurrency:map[targetValue:100]]`, "spec", "scalingMetric")(o),
			hasField("<nil>", "spec", "pathPrefixes")(o),
			hasField("map[conditionWait:3s]", "spec", "timeouts")(o),
		)
	})
	annotations := followed.GetAnnotations()
	delete(annotations, "httpscaledobject.keda.sh/skip-scaledobject-creation")
	if diff := cmp.Diff(map[string]string{"example.com/a": "2", "example.com/theirs": "1"}, annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if followed.GetUID() != made.GetUID() {
		t.Error("it was made anew")
	}
	n.AwaitEvent("ScaledObject", app, "ServiceIgnored", `"other"`, app+"-stable")
}

// A trigger that cannot be served changes nothing, and an Event says why. What interceptors
// say of the object is told on the ScaledObject as well.
func TestTheLastGoodObjectStays(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	with := func(metadata map[string]string) {
		metadata["service"] = "web"
		n.Apply(scaled{kind: "Deployment", metadata: metadata}.manifest(n.Name + ".test"))
	}
	n.Apply(traffictest.Deployment(app, "blue", 1))
	with(map[string]string{"targetValue": "7"})
	good := awaitObject(t, n, "is there", isOwned)
	n.AwaitEvent("ScaledObject", app, "UnknownService", "web")
	for bad, told := range map[string]string{
		"pathPrefix":        `did you mean "pathPrefixes"?`,
		"fallbackService":   "is a key of Kedify's that is not served here",
		"httpScaledObject":  "remove it",
		"waitingPageHeader": "there is no key",
	} {
		with(map[string]string{"targetValue": "8", bad: "x"})
		n.AwaitEvent("ScaledObject", app, "InvalidTrigger", bad, told)
	}
	if got := n.HTTPScaledObject(app); got.GetGeneration() != good.GetGeneration() {
		t.Errorf("its spec has changed: %v", field(got, "spec"))
	}
	with(map[string]string{"targetValue": "9"})
	awaitObject(t, n, "follows", hasField("9", "spec", "scalingMetric", "requestRate", "targetValue"))
}

// No change of a ScaledObject changes the split of a canary.
func TestASplitStaysWhateverScaledObjectsDo(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	a := canary()
	applyScaled(n, a, scaled{})
	n.SetImage(app, e2etest.Image("yellow"))
	n.AwaitPaused(app, 1)
	n.AwaitSplit(app, a.Split(20))
	record := n.Record(app)
	// Also not one that brings the two annotations of a split itself.
	n.Apply(scaled{annotations: map[string]string{"example.com/a": "1", e2etest.SplitAnnotation: "- service: x\n  weight: 1\n"}}.manifest(n.Name + ".test"))
	awaitObject(t, n, "follows", hasField("1", "metadata", "annotations", "example.com/a"))
	n.Apply(scaled{metadata: map[string]string{"portName": "http", "port": "-", "targetValue": "3"}}.manifest(n.Name + ".test"))
	awaitObject(t, n, "follows again", hasField("http", "spec", "scaleTargetRef", "portName"))
	n.Apply(scaled{}.manifest(n.Name + ".test"))
	awaitObject(t, n, "follows back", hasField("80", "spec", "scaleTargetRef", "port"))
	record.RequireSplits(a.Split(20))
}

// With pingPong the Service changes at each promotion.
func TestAnObjectFollowsPingPong(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	a := e2etest.App{Name: app, NoServices: true, Canary: "pingPong: {pingService: app-ping, pongService: app-pong}", Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(e2etest.Service("app-ping", app) + e2etest.Service("app-pong", app) + a.Rollout() + scaled{}.manifest(n.Name+".test"))
	n.AwaitHealthy(app, e2etest.Image("blue"))
	awaitObject(t, n, "has ping", hasField("app-ping", "spec", "scaleTargetRef", "service"))
	n.SetImage(app, e2etest.Image("yellow"))
	n.AwaitPaused(app, 1)
	n.Promote(app)
	n.AwaitHealthy(app, e2etest.Image("yellow"))
	awaitObject(t, n, "has pong", hasField("app-pong", "spec", "scaleTargetRef", "service"))
}

// An HTTPScaledObject that somebody else made is left alone, until it is handed over: in
// place, under load, in the middle of a canary.
func TestAnObjectIsHandedOver(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	p := traffictest.Embedded(t, n)
	a := canary()
	host := n.Name + ".test"
	theirs := strings.Replace(e2etest.HTTPScaledObject(app, app), "app.example.com", host, 1)
	n.Apply(theirs + a.Services() + a.Rollout())
	n.AwaitHealthy(app, e2etest.Image("blue"))
	n.SetImage(app, e2etest.Image("yellow"))
	n.AwaitPaused(app, 1)
	n.AwaitSplit(app, a.Split(20))
	before := n.HTTPScaledObject(app)
	record := n.Record(app)
	p.Await(t, host, "/color")
	load := traffictest.StartLoadAt(t, p, host, 100)

	n.Apply(scaled{metadata: map[string]string{"targetValue": "3"}}.manifest(host))
	n.AwaitEvent("ScaledObject", app, "HTTPScaledObjectNotOwned", "http.kedify.io/adopt=true")
	if got := n.HTTPScaledObject(app); got.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("it was changed:\n%s", cmp.Diff(before.Object, got.Object))
	}
	n.Kubectl("annotate", "httpscaledobject", app, "http.kedify.io/adopt=true")
	after := awaitObject(t, n, "is handed over", isOwned)
	awaitObject(t, n, "follows", hasField("3", "spec", "scalingMetric", "requestRate", "targetValue"))
	n.AwaitEvent("ScaledObject", app, "HTTPScaledObjectTakenOver")
	if after.GetUID() != before.GetUID() {
		t.Error("it was made anew")
	}
	// What was theirs and is not in the trigger is gone, also what an apply alone leaves.
	awaitObject(t, n, "has no paths", hasField("<nil>", "spec", "pathPrefixes"))
	load.AwaitBoth("blue", "yellow")
	record.RequireSplits(a.Split(20))
	load.Finish(nil, "blue", "yellow")
}

// A deleted object is served for ten seconds more. The Rollout says then what is missing, and
// has its split back when the ScaledObject is.
func TestAScaledObjectIsDeletedDuringACanary(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	p := traffictest.Embedded(t, n)
	a := canary()
	a.Steps += "\n- setWeight: 50\n- pause: {}"
	host := n.Name + ".test"
	applyScaled(n, a, scaled{})
	n.SetImage(app, e2etest.Image("yellow"))
	n.AwaitPaused(app, 1)
	n.AwaitSplit(app, a.Split(20))
	p.Await(t, host, "/color")
	load := traffictest.StartLoadAt(t, p, host, 50)

	n.Delete(scaled{}.manifest(host))
	deleted := awaitObject(t, n, "is being deleted", func(o *unstructured.Unstructured) error {
		if o.GetDeletionTimestamp() == nil {
			return errors.New("it is not")
		}
		return nil
	}).GetDeletionTimestamp().Time
	e2etest.Eventually(t, e2etest.Patience, "nine seconds", func(context.Context) error {
		if since := time.Since(deleted); since < 9*time.Second {
			return fmt.Errorf("it is being deleted for %s", since)
		}
		return nil
	})
	load.Finish(nil, "blue", "yellow")
	awaitGone(t, n)
	n.Promote(app)
	n.AwaitEvent("Rollout", app, "TrafficRoutingError", "HTTPScaledObject "+n.Name+"/"+app)
	n.Apply(scaled{}.manifest(host))
	n.AwaitSplit(app, a.Split(50))
}

// awaitGone waits until the HTTPScaledObject is gone.
func awaitGone(t *testing.T, n *e2etest.Namespace) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "no HTTPScaledObject", func(ctx context.Context) error {
		o, err := n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(n.Name).Get(ctx, app, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("there is one, deleted at %v", o.GetDeletionTimestamp())
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// A trigger that is taken out takes the object along.
func TestATriggerIsTakenOut(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	applyScaled(n, canary(), scaled{})
	awaitObject(t, n, "is there", isOwned)
	n.Kubectl("patch", "scaledobject", app, "--type=merge", "-p", `{"spec":{"triggers":[{"type":"cpu","metricType":"Utilization","metadata":{"value":"50"}}]}}`)
	awaitGone(t, n)
}

// An object whose ScaledObject was deleted without it is the next one's of that name.
func TestAnOrphanIsTakenBack(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	applyScaled(n, canary(), scaled{})
	awaitObject(t, n, "is there", isOwned)
	// The garbage collector looks for new kinds every 30 s. Until it knows HTTPScaledObjects, it
	// does not take their owners away, and later deletes them. It knows them once it has deleted one.
	n.Kubectl("delete", "scaledobject", app)
	awaitGone(t, n)
	n.Apply(scaled{}.manifest(n.Name + ".test"))
	before := awaitObject(t, n, "is there again", isOwned)
	n.Kubectl("wait", "--for=create", "horizontalpodautoscaler/keda-hpa-"+app, "--timeout=2m") // KEDA makes it
	n.Kubectl("delete", "scaledobject", app, "--cascade=orphan")
	n.Kubectl("delete", "horizontalpodautoscaler", "keda-hpa-"+app) // KEDA refuses a ScaledObject beside it
	awaitObject(t, n, "has no owner", func(o *unstructured.Unstructured) error {
		if owner := metav1.GetControllerOf(o); owner != nil {
			return fmt.Errorf("it has %s", owner.UID)
		}
		return nil
	})
	n.Apply(scaled{}.manifest(n.Name + ".test"))
	if after := awaitObject(t, n, "has an owner", isOwned); after.GetUID() != before.GetUID() {
		t.Error("it was made anew")
	}
}

// In a namespace that is being deleted no object waits.
func TestANamespaceIsDeletedDuringACanary(t *testing.T) {
	t.Parallel()
	e2etest.Shell(t, "kubectl create namespace agent-goes")
	n := e2etest.AdoptNamespace(t, "agent-goes")
	a := canary()
	applyScaled(n, a, scaled{})
	n.SetImage(app, e2etest.Image("yellow"))
	n.AwaitPaused(app, 1)
	n.AwaitSplit(app, a.Split(20))
	e2etest.Shell(t, "kubectl delete namespace agent-goes --wait=false")
	var first time.Time
	e2etest.Eventually(t, e2etest.Patience, "no HTTPScaledObject", func(ctx context.Context) error {
		o, err := n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(n.Name).Get(ctx, app, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && first.IsZero() && o.GetDeletionTimestamp() != nil {
			first = time.Now()
		}
		return fmt.Errorf("there is one, or it is not known: %w", err)
	})
	if took := time.Since(first); !first.IsZero() && took > 8*time.Second {
		t.Errorf("it waited for %s", took)
	}
}
