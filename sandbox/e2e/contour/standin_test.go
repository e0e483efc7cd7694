package contour

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// standInParent has routeManifest name a Gateway of the stand-in. Nobody needs the
// Gateway itself.
const standInParent = "  parentRefs:\n    - name: stand-in\n"

// standInRoute is routeManifest with the stand-in as its only parent.
func standInRoute(t *testing.T) string {
	t.Helper()
	return changed(t, routeManifest, "  parentRefs:\n    - name: GATEWAY\n      namespace: NAMESPACE_OF_IT\n", standInParent)
}

// standIn is a stand-in for the controller of a Gateway, which a test can stop: it
// accepts each generation of HTTPRoute "app", and splits no requests. All tests share
// Contour, so they cannot stop that.
type standIn struct {
	stopped atomic.Bool
	// reported is the last generation that it has reported on.
	reported atomic.Int64
}

// startStandIn starts a stand-in, which runs until the test ends.
func startStandIn(t *testing.T, n *e2etest.Namespace) *standIn {
	t.Helper()
	s := &standIn{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, n) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the stand-in for a Gateway: %v", err)
		}
	})
	return s
}

func (s *standIn) run(ctx context.Context, n *e2etest.Namespace) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if s.stopped.Load() {
			continue
		}
		route, err := httpRoutes.client(n).Get(ctx, name, metav1.GetOptions{})
		if err == nil && route.GetGeneration() != s.reported.Load() {
			err = s.report(ctx, n, route)
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
}

// report accepts the generation that a route has.
func (s *standIn) report(ctx context.Context, n *e2etest.Namespace, route *unstructured.Unstructured) error {
	var conditions []metav1.Condition
	for kind, reason := range map[string]string{"Accepted": "Accepted", "ResolvedRefs": "ResolvedRefs"} {
		conditions = append(conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now(), ObservedGeneration: route.GetGeneration(),
		})
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": route.GetResourceVersion()},
		"status": map[string]any{"parents": []any{map[string]any{
			"parentRef": map[string]any{"name": "stand-in"}, "controllerName": "example.com/stand-in", "conditions": conditions,
		}}},
	})
	if err != nil {
		return err
	}
	if s.stopped.Load() {
		return nil
	}
	_, err = httpRoutes.client(n).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "stand-in"}, "status")
	if err == nil {
		s.reported.Store(route.GetGeneration())
	}
	return err
}

// stop waits until the stand-in has reported on the route as it is now, and stops it.
func (s *standIn) stop(t *testing.T, n *e2etest.Namespace) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "the stand-in has accepted the route", func(context.Context) error {
		if routeOf(t, n, name).GetGeneration() != s.reported.Load() {
			return errors.New("not yet")
		}
		return nil
	})
	s.stopped.Store(true)
}

// start goes on after stop.
func (s *standIn) start() { s.stopped.Store(false) }
