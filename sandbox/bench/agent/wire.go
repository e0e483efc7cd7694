package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

const (
	// wireBar is the highest ratio of the time from a ScaledObject that is applied to the first
	// request through kedify-proxy, to that by hand.
	wireBar = 2
	// wireRounds is how many applications each way has; the median counts.
	wireRounds = 10
	// wireRate is how many requests a second an application has meanwhile.
	wireRate = 100
	// wireTime is how long requests are watched after the first through kedify-proxy, and how
	// long a careful person waits before switching.
	wireTime = 4 * time.Second
)

// How an Ingress gets to kedify-proxy.
const (
	byAgent  = "the agent"
	atOnce   = "by hand, all at once"
	withCare = "by hand, the Ingress when all else is there"
)

var ways = []string{byAgent, atOnce, withCare}

var (
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	ingresses   = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
)

// wire measures how long it takes from a ScaledObject to the first request through
// kedify-proxy, and how many requests are lost meanwhile, beside the same by hand.
func (w *world) wire(ctx context.Context) error {
	gauge.Say("an application that the agent makes a kedify-proxy for")
	const first = "first"
	if err := w.makeApp(ctx, first); err != nil {
		return err
	}
	if err := w.apply(ctx, scaledObject(first)); err != nil {
		return err
	}
	if err := w.ready(ctx, "kedify-proxy", 2); err != nil {
		return err
	}
	took, lost := map[string][]float64{}, map[string]int{}
	requests := map[string]int{}
	for round := range wireRounds {
		gauge.Say("round %d of %d", round+1, wireRounds)
		for i, way := range ways {
			seconds, counts, err := w.wireOne(ctx, fmt.Sprintf("app-%d-%d", round, i), way)
			if err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
			took[way] = append(took[way], seconds)
			lost[way] += len(counts.Failed)
			requests[way] += counts.Requests
		}
	}
	table := gauge.NewTable("ScaledObject applied to first request through kedify-proxy\tmedian\tlongest\tratio\tbar\trequests\tlost\tbar")
	for _, way := range ways {
		ratio, losses := "\t", fmt.Sprintf("%d\t", lost[way])
		if way == byAgent {
			ratio = gauge.AtMost(gauge.Median(took[way])/gauge.Median(took[atOnce]), wireBar)
			losses = gauge.Count(lost[way], lost[withCare])
		}
		table.Row("%s\t%.2f s\t%.2f s\t%s\t%d\t%s", way, gauge.Median(took[way]), slices.Max(took[way]), ratio, requests[way], losses)
	}
	table.Print()
	return nil
}

// wireOne makes an application with an Ingress, and gets that to kedify-proxy. It returns the
// seconds until the first request through kedify-proxy, and what became of all requests.
func (w *world) wireOne(ctx context.Context, app, way string) (float64, traffic.Counts, error) {
	var none traffic.Counts
	if err := errors.Join(w.makeApp(ctx, app), w.apply(ctx, ingress(app))); err != nil {
		return 0, none, err
	}
	address, err := w.addressOf(ctx, app)
	if err != nil {
		return 0, none, err
	}
	options := traffic.Options{Target: address + ":80", Host: app + ".example.com", Rate: wireRate, Connections: 8}
	err = gauge.Poll(ctx, 100*time.Millisecond, "the Ingress "+app+" answers", func() (bool, error) {
		answers, err := traffic.Send(ctx, options, 1)
		return err == nil && !answers[0].Failed(), err
	})
	if err != nil {
		return 0, none, err
	}
	load, err := traffic.Start(options)
	if err != nil {
		return 0, none, err
	}
	defer load.Stop()
	before, err := w.proxied(ctx)
	if err != nil {
		return 0, none, err
	}
	if way == withCare {
		if err := errors.Join(w.apply(ctx, httpScaledObject(app)), gauge.Pause(ctx, wireTime)); err != nil {
			return 0, none, err
		}
	}
	began := time.Now()
	switch way {
	case byAgent:
		err = w.apply(ctx, scaledObject(app))
	case atOnce:
		err = errors.Join(w.apply(ctx, httpScaledObject(app)), w.switchIngress(ctx, app))
	case withCare:
		err = w.switchIngress(ctx, app)
	}
	if err != nil {
		return 0, none, err
	}
	err = gauge.Poll(ctx, 20*time.Millisecond, "a request of "+app+" through kedify-proxy", func() (bool, error) {
		now, err := w.proxied(ctx)
		return now > before, err
	})
	if err != nil {
		return 0, none, err
	}
	seconds := time.Since(began).Seconds()
	if err := gauge.Pause(ctx, wireTime); err != nil {
		return 0, none, err
	}
	counts := traffic.Count(load.Stop())
	for _, failed := range counts.Failed {
		gauge.Say("%s: %s", way, failed)
	}
	// kedify-proxy is to get no more requests of this application.
	return seconds, counts, w.Resource(ingresses).Namespace(gauge.Namespace).Delete(ctx, app, metav1.DeleteOptions{})
}

// makeApp makes an application, and waits for its pod.
func (w *world) makeApp(ctx context.Context, app string) error {
	if err := errors.Join(w.apply(ctx, gauge.Object(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: 80, targetPort: 8080}]}`, app)), w.apply(ctx, gauge.Object(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
        - {name: app, image: "argoproj/rollouts-demo:blue", ports: [{containerPort: 8080}], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}`, app))); err != nil {
		return err
	}
	return w.ready(ctx, app, 1)
}

// ready waits until a Deployment has so many ready pods.
func (w *world) ready(ctx context.Context, deployment string, n int64) error {
	return gauge.Poll(ctx, 100*time.Millisecond, "Deployment "+deployment+" is ready", func() (bool, error) {
		list, err := w.Resource(deployments).Namespace(gauge.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + deployment})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		ready, _, _ := unstructured.NestedInt64(list.Items[0].Object, "status", "readyReplicas")
		return ready == n, nil
	})
}

func scaledObject(app string) *unstructured.Unstructured {
	return gauge.Object(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[1]s}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicaCount: 1
  maxReplicaCount: 1
  triggers:
    - type: kedify-http
      metadata: {hosts: %[1]s.example.com, pathPrefixes: /, service: %[1]s, port: "80", scalingMetric: requestRate, targetValue: "10", trafficAutowire: ingress}`, app)
}

func httpScaledObject(app string) *unstructured.Unstructured {
	return gauge.Object(`
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata: {name: %[1]s, annotations: {httpscaledobject.keda.sh/skip-scaledobject-creation: "true"}}
spec:
  hosts: [%[1]s.example.com]
  pathPrefixes: [/]
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s, service: %[1]s, port: 80}
  scalingMetric: {requestRate: {targetValue: 10}}`, app)
}

// ingress sends requests to the application.
func ingress(app string) *unstructured.Unstructured {
	return gauge.Object(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s}
spec:
  ingressClassName: contour
  rules:
    - host: %[1]s.example.com
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[1]s, port: {number: 80}}}}]}`, app)
}

// apply applies an object as kubectl does.
func (w *world) apply(ctx context.Context, o *unstructured.Unstructured) error {
	_, err := w.For(o).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
	return err
}

func (w *world) switchIngress(ctx context.Context, app string) error {
	patch := `[{"op": "replace", "path": "/spec/rules/0/http/paths/0/backend/service", "value": {"name": "kedify-proxy", "port": {"number": 8080}}}]`
	_, err := w.Resource(ingresses).Namespace(gauge.Namespace).Patch(ctx, app, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// addressOf waits for the address of an Ingress.
func (w *world) addressOf(ctx context.Context, name string) (address string, err error) {
	err = gauge.Poll(ctx, 100*time.Millisecond, "the address of Ingress "+name, func() (bool, error) {
		o, err := w.Resource(ingresses).Namespace(gauge.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
		if len(list) > 0 {
			entry, _ := list[0].(map[string]any)
			address, _ = entry["ip"].(string)
		}
		return address != "", nil
	})
	return address, err
}

// answered are the requests that an Envoy has answered with 200 to 299 for the interceptor's
// listeners.
var answered = regexp.MustCompile(`(?m)^http\.([^.]+)\.downstream_rq_2xx: (\d+)$`)

// proxied returns how many requests the kedify-proxies have answered with 200 to 299.
func (w *world) proxied(ctx context.Context) (total int, err error) {
	list, err := w.Resource(pods).Namespace(gauge.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=kedify-proxy"})
	if err != nil {
		return 0, err
	}
	for _, pod := range list.Items {
		ip, _, _ := unstructured.NestedString(pod.Object, "status", "podIP")
		_, page, err := gauge.Get(ctx, http.DefaultClient, "http://"+ip+":9901/stats?filter=downstream_rq_2xx", "")
		if err != nil {
			return 0, err
		}
		for _, found := range answered.FindAllStringSubmatch(page, -1) {
			if strings.Contains(found[1], "admin") || strings.Contains(found[1], "ready") {
				continue
			}
			n, err := strconv.Atoi(found[2])
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}
