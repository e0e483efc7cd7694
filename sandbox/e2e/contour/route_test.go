package contour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// routeKind is a kind of route, in a version that the sandbox's CRDs have.
type routeKind schema.GroupVersionResource

const group = "gateway.networking.k8s.io"

var (
	httpRoutes = routeKind{Group: group, Version: "v1", Resource: "httproutes"}
	grpcRoutes = routeKind{Group: group, Version: "v1", Resource: "grpcroutes"}
	tlsRoutes  = routeKind{Group: group, Version: "v1alpha2", Resource: "tlsroutes"}
	tcpRoutes  = routeKind{Group: group, Version: "v1alpha2", Resource: "tcproutes"}
)

// client returns a client for the routes of a namespace.
func (k routeKind) client(n *e2etest.Namespace) dynamic.ResourceInterface {
	return n.Dynamic.Resource(schema.GroupVersionResource(k)).Namespace(n.Name)
}

// of returns a route of a namespace as it is now.
func (k routeKind) of(t *testing.T, n *e2etest.Namespace, name string) *unstructured.Unstructured {
	t.Helper()
	route, err := k.client(n).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("%s %s/%s: %v", k.Resource, n.Name, name, err)
	}
	return route
}

// await waits until check returns nil for a route.
func (k routeKind) await(t *testing.T, n *e2etest.Namespace, name string, within time.Duration, what string, check func(*unstructured.Unstructured) error) {
	t.Helper()
	e2etest.Eventually(t, within, k.Resource+" "+name+": "+what, func(ctx context.Context) error {
		route, err := k.client(n).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(route)
	})
}

// awaitRest waits until a route is, to the byte, as it was before the canary.
func (k routeKind) awaitRest(t *testing.T, n *e2etest.Namespace, before *unstructured.Unstructured) {
	t.Helper()
	k.await(t, n, before.GetName(), e2etest.Patience, "as before the canary", func(now *unstructured.Unstructured) error {
		if diff := cmp.Diff(written(t, before), written(t, now)); diff != "" {
			return fmt.Errorf("-before +now:\n%s", diff)
		}
		return nil
	})
}

// What the router writes on a route that is not at rest. It is spelt out here, and not
// taken from the router: users rely on it.
const (
	inProgressLabel = "rollouts.argoproj.io/gatewayapi-canary"
	stateAnnotation = "rollouts.kedify.io/gatewayapi-canary"
)

// routeOf returns an HTTPRoute of a namespace as it is now.
func routeOf(t *testing.T, n *e2etest.Namespace, name string) *unstructured.Unstructured {
	t.Helper()
	return httpRoutes.of(t, n, name)
}

// awaitRoute waits until check returns nil for an HTTPRoute.
func awaitRoute(t *testing.T, n *e2etest.Namespace, name string, within time.Duration, what string, check func(*unstructured.Unstructured) error) {
	t.Helper()
	httpRoutes.await(t, n, name, within, what, check)
}

// ofPeople is what people write of a route: labels, annotations and spec.
func ofPeople(route *unstructured.Unstructured) map[string]any {
	return map[string]any{"labels": route.GetLabels(), "annotations": route.GetAnnotations(), "spec": route.Object["spec"]}
}

// written is what people write of a route, in canonical JSON.
func written(t *testing.T, route *unstructured.Unstructured) string {
	t.Helper()
	text, err := json.MarshalIndent(ofPeople(route), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// awaitRest waits until an HTTPRoute is, to the byte, as it was before the canary.
func awaitRest(t *testing.T, n *e2etest.Namespace, before *unstructured.Unstructured) {
	t.Helper()
	httpRoutes.awaitRest(t, n, before)
}

// requireWeights fails the test unless a route has these weights, as weightsOf shows
// them, and says that a canary is in progress.
func requireWeights(t *testing.T, n *e2etest.Namespace, name, want string) {
	t.Helper()
	if err := checkWeights(routeOf(t, n, name), want); err != nil {
		t.Errorf("HTTPRoute %s: %v", name, err)
	}
}

func checkWeights(route *unstructured.Unstructured, want string) error {
	if got := weightsOf(route); got != want {
		return fmt.Errorf("its weights are %q, want %q", got, want)
	}
	if got := route.GetLabels()[inProgressLabel]; got != "in-progress" {
		return fmt.Errorf("label %s is %q, want in-progress", inProgressLabel, got)
	}
	if route.GetAnnotations()[stateAnnotation] == "" {
		return errors.New("there is no annotation " + stateAnnotation)
	}
	return nil
}

// weightsOf returns the weights of a route's backends in order, as in "95/5", with a
// space between the weights of two rules.
func weightsOf(route *unstructured.Unstructured) string {
	var all []string
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
	for _, rule := range rules {
		var weights []string
		refs, _, _ := unstructured.NestedSlice(rule.(map[string]any), "backendRefs")
		for _, ref := range refs {
			weights = append(weights, fmt.Sprint(ref.(map[string]any)["weight"]))
		}
		all = append(all, strings.Join(weights, "/"))
	}
	return strings.Join(all, " ")
}

// requireWrites fails the test unless the router has written a route want times in all,
// each time with the same verb. A write that was refused with a conflict (409), as
// after a write of the route's status, does not count: the router made it again.
func requireWrites(t *testing.T, n *e2etest.Namespace, name, verb string, want int) {
	t.Helper()
	writes := n.ControllerWrites(name)
	counted := slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return w == verb+" 409" })
	if !slices.Equal(counted, slices.Repeat([]string{verb}, want)) {
		t.Errorf("the router has written HTTPRoute %s by %q, want %d times %s", name, writes, want, verb)
	}
}

// record holds every state of a route since the recording began.
type record struct {
	t *testing.T
	*e2etest.Recorder
}

// recordWeights records an HTTPRoute until the test ends.
func recordWeights(t *testing.T, n *e2etest.Namespace, name string) record {
	t.Helper()
	return record{t, n.RecordOf(schema.GroupVersionResource(httpRoutes), name)}
}

// requireWeights fails the test unless the route's spec was changed to exactly these
// weights, one after the other, each by one write.
func (r record) requireWeights(want ...string) {
	r.t.Helper()
	var got []string
	e2etest.Eventually(r.t, e2etest.Patience, "the record of the route ends with "+want[len(want)-1], func(context.Context) error {
		got = nil
		last := int64(0)
		for _, route := range r.States() {
			if generation := route.GetGeneration(); generation != last {
				got, last = append(got, weightsOf(route)), generation
			}
		}
		if len(got) < len(want) || got[len(got)-1] != want[len(want)-1] {
			return fmt.Errorf("so far: %q", got)
		}
		return nil
	})
	if !slices.Equal(got, want) {
		r.t.Errorf("the route's weights from first to last are %q, want %q", got, want)
	}
}
