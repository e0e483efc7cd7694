package proxyworld

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// makers is how many objects are made at once.
const makers = 24

const annotation = "http.kedify.io/weighted-backends"

// NameFormat gives the name of an HTTPScaledObject from its number, from 0.
const NameFormat = "app-%05d"

func name(i int) string { return fmt.Sprintf(NameFormat, i) }

// Host is the host of an HTTPScaledObject by its number, from 0.
func Host(i int) string { return name(i) + ".example.com" }

func split(i, canary int) string {
	return fmt.Sprintf("- service: %[1]s-stable\n  weight: %[2]d\n- service: %[1]s-canary\n  weight: %[3]d\n", name(i), 100-canary, canary)
}

// Grow makes HTTPScaledObjects until there are n, each with two Services and
// their endpoints, which are the same two applications for all. The stable side
// has all the weight.
func (w *World) Grow(ctx context.Context, n int) error {
	if n <= w.Objects {
		return nil
	}
	gauge.Say("making HTTPScaledObjects, with two Services each, until there are %d", n)
	err := gauge.Each(makers, n-w.Objects, func(i int) error {
		i += w.Objects
		stable, canary := service(i, "stable"), service(i, "canary")
		return w.Create(ctx, stable, endpoint(stable.GetName(), StableAddress), canary, endpoint(canary.GetName(), CanaryAddress), httpScaledObject(i))
	})
	w.Objects = n
	return err
}

// MakeAsleep makes an HTTPScaledObject whose Services have no endpoints. Requests wait for
// one as long as wait says.
func (w *World) MakeAsleep(ctx context.Context, i int, wait time.Duration) error {
	object := httpScaledObject(i)
	if err := unstructured.SetNestedField(object.Object, wait.String(), "spec", "timeouts", "conditionWait"); err != nil {
		return err
	}
	return w.Create(ctx, service(i, "stable"), service(i, "canary"), object)
}

// SetWeight patches the annotation of an HTTPScaledObject as the plugin does.
func (w *World) SetWeight(ctx context.Context, i, canary int) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: split(i, canary)}}})
	if err != nil {
		return err
	}
	_, err = w.Resource(cluster.HTTPScaledObjectGVR).Namespace(gauge.Namespace).Patch(ctx, name(i), types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

func httpScaledObject(i int) *unstructured.Unstructured {
	return gauge.Object(`
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata:
  name: %[1]s
  labels: {app.kubernetes.io/name: %[1]s, app.kubernetes.io/part-of: shop}
  annotations: {httpscaledobject.keda.sh/skip-scaledobject-creation: "true", %[2]s: %[3]q}
spec:
  hosts: [%[4]s]
  pathPrefixes: [/]
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: %[1]s, service: %[1]s-stable, port: 80}
  replicas: {min: 2, max: 10}
  scalingMetric: {requestRate: {targetValue: 5, window: 1m, granularity: 1s}}`, name(i), annotation, split(i, 0), Host(i))
}

// service has no ClusterIP: nothing uses one here, and allocating one would take
// the API server longer than everything else.
func service(i int, side string) *unstructured.Unstructured {
	return gauge.Object(`
apiVersion: v1
kind: Service
metadata: {name: %s-%s}
spec: {clusterIP: None, ports: [{name: http, port: 80, protocol: TCP}]}`, name(i), side)
}

// AddEndpoint makes an EndpointSlice of a Service with an address, unless there is one.
func (w *World) AddEndpoint(ctx context.Context, service string, address netip.AddrPort) error {
	err := w.Create(ctx, endpoint(service, address))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func endpoint(service string, address netip.AddrPort) *unstructured.Unstructured {
	return gauge.Object(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: %[3]d, protocol: TCP}]
endpoints: [{addresses: [%[2]s], conditions: {ready: true, serving: true}}]`, service, address.Addr(), address.Port())
}
