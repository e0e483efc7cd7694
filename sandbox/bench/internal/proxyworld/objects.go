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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// makers is how many objects are made at once.
const makers = 24

const annotation = "http.kedify.io/weighted-backends"

var (
	services       = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

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
	err := gauge.Each(makers, w.Objects, n, func(i int) error {
		for side, address := range map[string]netip.AddrPort{"stable": StableAddress, "canary": CanaryAddress} {
			if err := w.make(ctx, services, service(i, side)); err != nil {
				return err
			}
			if err := w.make(ctx, endpointSlices, endpointSlice(name(i)+"-"+side, address)); err != nil {
				return err
			}
		}
		return w.make(ctx, cluster.HTTPScaledObjectGVR, httpScaledObject(i))
	})
	w.Objects = n
	return err
}

// MakeAsleep makes an HTTPScaledObject whose Services have no endpoints. Requests wait for
// one as long as wait says.
func (w *World) MakeAsleep(ctx context.Context, i int, wait time.Duration) error {
	for _, side := range []string{"stable", "canary"} {
		if err := w.make(ctx, services, service(i, side)); err != nil {
			return err
		}
	}
	object := httpScaledObject(i)
	if err := unstructured.SetNestedField(object, wait.String(), "spec", "timeouts", "conditionWait"); err != nil {
		return err
	}
	return w.make(ctx, cluster.HTTPScaledObjectGVR, object)
}

func (w *World) make(ctx context.Context, resource schema.GroupVersionResource, object map[string]any) error {
	_, err := w.Client.Resource(resource).Namespace(gauge.Namespace).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	return err
}

// SetWeight patches the annotation of an HTTPScaledObject as the plugin does.
func (w *World) SetWeight(ctx context.Context, i, canary int) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: split(i, canary)}}})
	if err != nil {
		return err
	}
	_, err = w.Client.Resource(cluster.HTTPScaledObjectGVR).Namespace(gauge.Namespace).Patch(ctx, name(i), types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

func httpScaledObject(i int) map[string]any {
	return map[string]any{
		"apiVersion": "http.keda.sh/v1alpha1", "kind": "HTTPScaledObject",
		"metadata": map[string]any{
			"name": name(i), "namespace": gauge.Namespace,
			"labels":      map[string]any{"app.kubernetes.io/name": name(i), "app.kubernetes.io/part-of": "shop"},
			"annotations": map[string]any{"httpscaledobject.keda.sh/skip-scaledobject-creation": "true", annotation: split(i, 0)},
		},
		"spec": map[string]any{
			"hosts":          []any{Host(i)},
			"pathPrefixes":   []any{"/"},
			"scaleTargetRef": map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": name(i), "service": name(i) + "-stable", "port": int64(80)},
			"replicas":       map[string]any{"min": int64(2), "max": int64(10)},
			"scalingMetric":  map[string]any{"requestRate": map[string]any{"targetValue": int64(5), "window": "1m", "granularity": "1s"}},
		},
	}
}

// service has no ClusterIP: nothing uses one here, and allocating one would take
// the API server longer than everything else.
func service(i int, side string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": name(i) + "-" + side, "namespace": gauge.Namespace},
		"spec":     map[string]any{"clusterIP": "None", "ports": []any{map[string]any{"name": "http", "port": int64(80), "protocol": "TCP"}}},
	}
}

// AddEndpoint makes an EndpointSlice of a Service with an address, unless there is one.
func (w *World) AddEndpoint(ctx context.Context, service string, address netip.AddrPort) error {
	err := w.make(ctx, endpointSlices, endpointSlice(service, address))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func endpointSlice(service string, address netip.AddrPort) map[string]any {
	return map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
		"metadata": map[string]any{
			"name": service + "-1", "namespace": gauge.Namespace,
			"labels": map[string]any{"kubernetes.io/service-name": service},
		},
		"addressType": "IPv4",
		"ports":       []any{map[string]any{"name": "http", "port": int64(address.Port()), "protocol": "TCP"}},
		"endpoints":   []any{map[string]any{"addresses": []any{address.Addr().String()}, "conditions": map[string]any{"ready": true, "serving": true}}},
	}
}
