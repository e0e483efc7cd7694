package keda

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// figure asks the API server for the figure of a ScaledObject, as the HPA does: it
// comes from the scaler by way of KEDA's operator and metrics server.
func figure(ctx context.Context, n *e2etest.Namespace, name string) (float64, error) {
	resources := n.Dynamic.Resource(schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"})
	object, err := resources.Namespace(n.Name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	names, _, _ := unstructured.NestedStringSlice(object.Object, "status", "externalMetricNames")
	if len(names) != 1 {
		return 0, fmt.Errorf("ScaledObject %s has the metrics %v, want one", name, names)
	}
	body, err := n.Kube.Discovery().RESTClient().Get().
		AbsPath("/apis/external.metrics.k8s.io/v1beta1/namespaces", n.Name, names[0]).
		Param("labelSelector", "scaledobject.keda.sh/name="+name).DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []struct {
			Value resource.Quantity `json:"value"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, err
	}
	if len(list.Items) != 1 {
		return 0, fmt.Errorf("%d values, want one: %s", len(list.Items), body)
	}
	return list.Items[0].Value.AsApproximateFloat64(), nil
}

// awaitFigure waits until the figure of a ScaledObject has been what is wanted, give or
// take percent, for a whole window. want is called before each reading.
func awaitFigure(t *testing.T, n *e2etest.Namespace, name string, window time.Duration, want func() float64, percent float64) {
	t.Helper()
	begun := time.Now()
	since := begun
	e2etest.Eventually(t, 2*e2etest.Patience, "a steady figure of "+name, func(ctx context.Context) error {
		expected := want()
		got, err := figure(ctx, n, name)
		if err == nil {
			err = near(got, expected, percent)
		}
		if err != nil {
			since = time.Now()
			return fmt.Errorf("%s after the begin: %w", time.Since(begun).Round(time.Second), err)
		}
		if time.Since(since) < window {
			return fmt.Errorf("the figure is as wanted since %s, want %s", time.Since(since).Round(time.Second), window)
		}
		return nil
	})
}

// near says whether a figure is what is wanted, give or take percent.
func near(got, want, percent float64) error {
	if math.Abs(got-want) > want*percent/100 {
		return fmt.Errorf("the figure is %.2f, want %.2f ± %v %%", got, want, percent)
	}
	return nil
}
