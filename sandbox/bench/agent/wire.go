package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
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

// ways are how an Ingress gets to kedify-proxy.
var ways = []string{
	"the agent",
	"by hand, all at once",
	"by hand, the Ingress when all else is there",
}

var (
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
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
	if err := w.apply(ctx, scaledObjects, scaledObject(first)); err != nil {
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
	for i, way := range ways {
		ratio, bar, lostBar := "", "", ""
		if i == 0 {
			of := gauge.Median(took[way]) / gauge.Median(took[ways[1]])
			ratio, bar = fmt.Sprintf("%.2f", of), fmt.Sprintf("at most %d.00 %s", wireBar, gauge.Mark(of <= wireBar))
			most := lost[ways[2]]
			lostBar = fmt.Sprintf("at most %d %s", most, gauge.Mark(lost[way] <= most))
		}
		table.Row("%s\t%.2f s\t%.2f s\t%s\t%s\t%d\t%d\t%s", way, gauge.Median(took[way]), slices.Max(took[way]), ratio, bar, requests[way], lost[way], lostBar)
	}
	table.Print()
	return nil
}

// wireOne makes an application with an Ingress, and gets that to kedify-proxy. It returns the
// seconds until the first request through kedify-proxy, and what became of all requests.
func (w *world) wireOne(ctx context.Context, app, way string) (float64, traffic.Counts, error) {
	var none traffic.Counts
	if err := w.makeApp(ctx, app); err != nil {
		return 0, none, err
	}
	if err := w.apply(ctx, ingresses, ingress(app, app, 80)); err != nil {
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
	if way == ways[2] {
		if err := errors.Join(w.apply(ctx, cluster.HTTPScaledObjectGVR, httpScaledObject(app)), pause(ctx, wireTime)); err != nil {
			return 0, none, err
		}
	}
	began := time.Now()
	switch way {
	case ways[0]:
		err = w.apply(ctx, scaledObjects, scaledObject(app))
	case ways[1]:
		err = errors.Join(w.apply(ctx, cluster.HTTPScaledObjectGVR, httpScaledObject(app)), w.switchIngress(ctx, app))
	default:
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
	if err := pause(ctx, wireTime); err != nil {
		return 0, none, err
	}
	counts := traffic.Count(load.Stop())
	for _, failed := range counts.Failed {
		gauge.Say("%s: %s", way, failed)
	}
	// kedify-proxy is to get no more requests of this application.
	return seconds, counts, w.client.Resource(ingresses).Namespace(gauge.Namespace).Delete(ctx, app, metav1.DeleteOptions{})
}

// makeApp makes an application, and waits for its pod.
func (w *world) makeApp(ctx context.Context, app string) error {
	if err := w.apply(ctx, services, object(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: 80, targetPort: 8080}]}`, app)); err != nil {
		return err
	}
	if err := w.apply(ctx, deployments, object(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
        - {name: app, image: "argoproj/rollouts-demo:blue", ports: [{containerPort: 8080}], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}`, app)); err != nil {
		return err
	}
	return w.ready(ctx, app, 1)
}

// ready waits until a Deployment has so many ready pods.
func (w *world) ready(ctx context.Context, deployment string, n int64) error {
	return gauge.Poll(ctx, 100*time.Millisecond, "Deployment "+deployment+" is ready", func() (bool, error) {
		list, err := w.client.Resource(deployments).Namespace(gauge.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + deployment})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		ready, _, _ := unstructured.NestedInt64(list.Items[0].Object, "status", "readyReplicas")
		return ready == n, nil
	})
}

func scaledObject(app string) *unstructured.Unstructured {
	return object(`
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
	return object(`
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata: {name: %[1]s, annotations: {httpscaledobject.keda.sh/skip-scaledobject-creation: "true"}}
spec:
  hosts: [%[1]s.example.com]
  pathPrefixes: [/]
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s, service: %[1]s, port: 80}
  scalingMetric: {requestRate: {targetValue: 10}}`, app)
}

func ingress(app, service string, port int) *unstructured.Unstructured {
	return object(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s}
spec:
  ingressClassName: contour
  rules:
    - host: %[1]s.example.com
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[2]s, port: {number: %[3]d}}}}]}`, app, service, port)
}

// object reads a manifest of this program.
func object(format string, args ...any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSON(fmt.Appendf(nil, format, args...))
	if err == nil {
		err = o.UnmarshalJSON(text)
	}
	if err != nil {
		panic(err)
	}
	return o
}

// apply applies an object as kubectl does.
func (w *world) apply(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
	_, err := w.client.Resource(resource).Namespace(gauge.Namespace).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
	return err
}

func (w *world) switchIngress(ctx context.Context, app string) error {
	patch := `[{"op": "replace", "path": "/spec/rules/0/http/paths/0/backend/service", "value": {"name": "kedify-proxy", "port": {"number": 8080}}}]`
	_, err := w.client.Resource(ingresses).Namespace(gauge.Namespace).Patch(ctx, app, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// addressOf waits for the address of an Ingress.
func (w *world) addressOf(ctx context.Context, name string) (address string, err error) {
	err = gauge.Poll(ctx, 100*time.Millisecond, "the address of Ingress "+name, func() (bool, error) {
		o, err := w.client.Resource(ingresses).Namespace(gauge.Namespace).Get(ctx, name, metav1.GetOptions{})
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
	list, err := w.client.Resource(pods).Namespace(gauge.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=kedify-proxy"})
	if err != nil {
		return 0, err
	}
	for _, pod := range list.Items {
		ip, _, _ := unstructured.NestedString(pod.Object, "status", "podIP")
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ip+":9901/stats?filter=downstream_rq_2xx", nil)
		if err != nil {
			return 0, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		page, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return 0, err
		}
		for _, found := range answered.FindAllStringSubmatch(string(page), -1) {
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
