package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

const (
	// wakeBar is the highest ratio of the time from the first request to the scale with a
	// trigger that is pushed to, to that with one that is only polled.
	wakeBar = 0.1
	// sleepers is how many applications each kind of trigger has.
	sleepers = 20
	// pollingInterval is KEDA's default. The first requests are spread over it.
	pollingInterval = 30 * time.Second
	// longestWake is how long a request waits, which is longer than KEDA takes.
	longestWake = 2 * time.Minute
	// streamTime is how long KEDA has to open its streams again after the scaler has ended
	// the first of each ScaledObject.
	streamTime = 10 * time.Second

	adminService = "interceptors"
	adminPort    = 9090
)

var (
	deployments   = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	scaledObjects = schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
)

// triggers are the types of KEDA's trigger: pushed to, and only polled.
var triggers = []string{"external-push", "external"}

// wake measures how long it takes from the first request to an application at 0 until KEDA
// has written its scale.
func (w *world) wake(ctx context.Context) error {
	if err := w.AddEndpoint(ctx, adminService, netip.AddrPortFrom(cluster.NodeIP, adminPort)); err != nil {
		return err
	}
	gauge.Say("making %d applications at 0", sleepers*len(triggers))
	for i := range sleepers * len(triggers) {
		if err := w.makeSleeper(ctx, i); err != nil {
			return err
		}
	}
	interceptor, err := w.StartInterceptor(ctx)
	if err != nil {
		return err
	}
	defer interceptor.End()
	scaler, err := w.startScaler(ctx, adminService, adminPort)
	if err != nil {
		return err
	}
	defer scaler.End()
	for i := range sleepers * len(triggers) {
		if err := w.scale(ctx, i, triggers[i%len(triggers)]); err != nil {
			return err
		}
	}
	if err := gauge.Poll(ctx, 500*time.Millisecond, "all ScaledObjects are ready", func() (bool, error) { return w.scaledObjectsReady(ctx) }); err != nil {
		return fmt.Errorf("%w\n%s", err, scaler.Log)
	}
	if err := gauge.Pause(ctx, streamTime); err != nil {
		return err
	}
	gauge.Say("a first request to each, within %s", pollingInterval)
	took := make([]float64, sleepers*len(triggers))
	// In another order than KEDA got the ScaledObjects, and so polls them.
	order := rand.Perm(len(took))
	err = gauge.Each(len(took), len(took), func(i int) (err error) {
		if err := gauge.Pause(ctx, pollingInterval*time.Duration(order[i])/time.Duration(len(took))); err != nil {
			return err
		}
		took[i], err = w.wakeOne(ctx, i)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, interceptor.Log, scaler.Log)
	}
	printWake(took)
	return nil
}

func printWake(took []float64) {
	by := make([][]float64, len(triggers))
	for i, seconds := range took {
		by[i%len(triggers)] = append(by[i%len(triggers)], seconds)
	}
	pushed, polled := by[0], by[1]
	slices.Sort(pushed)
	slices.Sort(polled)
	table := gauge.NewTable("first request to scale written\tmedian\tshortest\tlongest\tratio\tbar")
	table.Row("%s, %d applications\t%.2f s\t%.2f s\t%.2f s\t%s", triggers[0], sleepers, gauge.Median(pushed), pushed[0], pushed[sleepers-1], gauge.AtMost(gauge.Median(pushed)/gauge.Median(polled), wakeBar))
	table.Row("%s, polled, %d applications\t%.2f s\t%.2f s\t%.2f s\t\t", triggers[1], sleepers, gauge.Median(polled), polled[0], polled[sleepers-1])
	table.Print()
}

// makeSleeper makes an application without pods. Its pods could not start: only its scale
// counts.
func (w *world) makeSleeper(ctx context.Context, i int) error {
	if err := w.Create(ctx, gauge.Object(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 0
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, image: none}]}`, name(i))); err != nil {
		return err
	}
	return w.MakeAsleep(ctx, i, longestWake)
}

// scale has KEDA scale an application, with its defaults.
func (w *world) scale(ctx context.Context, i int, trigger string) error {
	return w.Create(ctx, gauge.Object(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[1]s}
spec:
  minReplicaCount: 0
  scaleTargetRef: {name: %[1]s}
  triggers: [{type: %[2]s, metadata: {scalerAddress: "%[3]s"}}]`, name(i), trigger, scalerAddress))
}

func name(i int) string { return fmt.Sprintf(proxyworld.NameFormat, i) }

func (w *world) scaledObjectsReady(ctx context.Context) (bool, error) {
	list, err := w.Resource(scaledObjects).Namespace(gauge.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for _, o := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		ready := false
		for _, c := range conditions {
			c, _ := c.(map[string]any)
			ready = ready || c["type"] == "Ready" && c["status"] == "True"
		}
		if !ready {
			return false, nil
		}
	}
	return true, nil
}

// wakeOne sends a request to an application, and returns the seconds until its scale is not
// 0 any more.
func (w *world) wakeOne(ctx context.Context, i int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, longestWake)
	defer cancel()
	name := name(i)
	all := w.Resource(deployments).Namespace(gauge.Namespace)
	before, err := all.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if n := replicas(before); n != 0 {
		return 0, fmt.Errorf("%s has %d replicas before its first request", name, n)
	}
	watch, err := all.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: before.GetResourceVersion()})
	if err != nil {
		return 0, err
	}
	defer watch.Stop()
	began := time.Now()
	answered := make(chan error, 1)
	go func() {
		code, body, err := gauge.Get(ctx, &http.Client{}, "http://"+proxyworld.InterceptorAddress.String()+"/", proxyworld.Host(i))
		if err == nil {
			err = fmt.Errorf("it is answered with %d before it is scaled: %s", code, body)
		}
		answered <- err
	}()
	for {
		select {
		case err := <-answered:
			return 0, fmt.Errorf("%s: %w", name, err)
		case event, open := <-watch.ResultChan():
			if !open {
				return 0, fmt.Errorf("%s: the watch ended", name)
			}
			if o, is := event.Object.(*unstructured.Unstructured); is && replicas(o) > 0 {
				return time.Since(began).Seconds(), nil
			}
		}
	}
}

func replicas(deployment *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	return n
}
