package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficMalformedAnnotation replaces a split in use with several invalid ones: the
// last valid split keeps serving, no request fails, and the HTTPScaledObject gets one
// Warning Event for each, although two interceptors see it. The next valid split is
// served again.
func TestTrafficMalformedAnnotation(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		s := traffictest.StartAppBehind(t, n, 1, p)
		s.SetWeight(t, 30)
		load := traffictest.StartLoad(t, p, s.Host)
		load.RequireShare("yellow", 30)
		for _, bad := range []struct{ text, reason, says string }{
			{"- service: stable\n  weight: [", "InvalidSplit", "YAML"},
			{e2etest.SplitText(e2etest.Weight{Service: "stable"}, e2etest.Weight{Service: "canary"}), "InvalidSplit", "0"},
			{e2etest.SplitText(e2etest.Weight{Service: "stable", Weight: 50}, e2etest.Weight{Service: "nobody", Weight: 50}), "UnknownService", "nobody"},
		} {
			n.Annotate("app", map[string]*string{e2etest.SplitAnnotation: &bad.text})
			p.AwaitProblem(t, "app", bad.reason)
			event := n.AwaitEvent("HTTPScaledObject", "app", bad.reason, e2etest.SplitAnnotation, bad.says)
			if event.Type != corev1.EventTypeWarning {
				t.Errorf("the Event is of type %s, want Warning", event.Type)
			}
			load.RequireShare("yellow", 30)
		}
		s.SetWeight(t, 80)
		load.RequireShare("yellow", 80)
		load.Finish(nil, "blue", "yellow")
		requireEachOnce(t, n)
	})
}

// requireEachOnce waits until no interceptor has an Event left to write, and fails the
// test unless there are three.
func requireEachOnce(t *testing.T, n *e2etest.Namespace) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "the interceptors have told all", func(ctx context.Context) error {
		waiting, err := interceptorMetric(ctx, t, "interceptor_events_waiting", "")
		if err == nil && waiting != 0 {
			err = fmt.Errorf("%d Events wait", waiting)
		}
		return err
	})
	events, err := n.Kube.CoreV1().Events(n.Name).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=HTTPScaledObject"})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Items) != 3 {
		t.Errorf("%d Events in place of one for each of the 3 bad splits:", len(events.Items))
		for _, event := range events.Items {
			t.Logf("%s: %s: %s", event.Name, event.Reason, event.Message)
		}
	}
}
