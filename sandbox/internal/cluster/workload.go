package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// workloadTimeout is how long a workload may take to become ready: Argo Rollouts'
// controller downloads its plugins, starts them, and answers its probes.
const workloadTimeout = 2 * time.Minute

// awaitAddons waits until the workloads of all add-ons are ready, and the API server
// serves what it is to ask them for.
func (d *daemon) awaitAddons(ctx context.Context, installed []addon.Addon, manifests []addon.Manifests) error {
	var (
		workloads []addon.Workload
		services  []string
	)
	for _, m := range manifests {
		for _, o := range m.Objects {
			switch o.GetKind() {
			case "Deployment", "DaemonSet", "StatefulSet":
				workloads = append(workloads, addon.Workload{Kind: o.GetKind(), Namespace: cmp.Or(o.GetNamespace(), m.Namespace), Name: o.GetName()})
			case "APIService":
				services = append(services, o.GetName())
			}
		}
	}
	for _, a := range installed {
		for _, w := range a.Ready {
			// One among the manifests is waited for once.
			workloads = slices.DeleteFunc(workloads, func(other addon.Workload) bool {
				return other == addon.Workload{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
			})
			workloads = append(workloads, w)
		}
	}
	for _, w := range workloads {
		if err := d.awaitWorkload(ctx, w); err != nil {
			return err
		}
		d.said("%s %s/%s is ready", w.Kind, w.Namespace, w.Name)
	}
	for _, name := range services {
		if err := d.awaitAPIService(ctx, name); err != nil {
			return err
		}
		d.said("APIService %s is served", name)
	}
	return nil
}

// awaitAPIService waits until the API server reaches the service that it is to pass on
// requests to. Until then discovery fails, and no namespace can be deleted.
func (d *daemon) awaitAPIService(ctx context.Context, name string) error {
	client, err := dynamic.NewForConfig(d.config)
	if err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	ctx, cancel := context.WithTimeoutCause(ctx, workloadTimeout, fmt.Errorf("not available after %s", progress.Seconds(workloadTimeout)))
	defer cancel()
	err = poll(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		d.events.status("waiting for APIService %s", name)
		service, err := client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !hasCondition(service, "Available") {
			return errors.New("its condition Available is not True yet")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("waiting for APIService %s: %w", name, err)
	}
	return nil
}

// awaitWorkload waits until a workload of an add-on is ready.
func (d *daemon) awaitWorkload(ctx context.Context, w addon.Workload) error {
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, workloadTimeout, fmt.Errorf("not ready after %s", progress.Seconds(workloadTimeout)))
	defer cancel()
	err := poll(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		d.events.status("waiting for %s %s/%s, %s", w.Kind, w.Namespace, w.Name, progress.Seconds(time.Since(start)))
		pods, err := d.readyPods(ctx, w)
		if err != nil || w.Health == "" {
			return err
		}
		for _, pod := range pods.Items {
			if PodReady(&pod) {
				port, path, _ := strings.Cut(strings.TrimPrefix(w.Health, ":"), "/")
				return newPlainProbe().get("http://" + net.JoinHostPort(pod.Status.PodIP, port) + "/" + path)(ctx)
			}
		}
		return errors.New("no pod is ready any more")
	})
	if err != nil {
		return fmt.Errorf("waiting for %s %s/%s: %w\n%s", w.Kind, w.Namespace, w.Name, err, d.describePods(w.Namespace))
	}
	return nil
}

// readyPods returns the pods of a workload that is ready: a Deployment that is
// available, a DaemonSet with its pod on the node, a StatefulSet with all of its pods.
func (d *daemon) readyPods(ctx context.Context, w addon.Workload) (*corev1.PodList, error) {
	var (
		selector *metav1.LabelSelector
		ready    bool
	)
	switch w.Kind {
	case "Deployment":
		deployment, err := d.client.AppsV1().Deployments(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		selector = deployment.Spec.Selector
		ready = slices.ContainsFunc(deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
		})
	case "DaemonSet":
		set, err := d.client.AppsV1().DaemonSets(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		selector = set.Spec.Selector
		ready = set.Status.NumberAvailable > 0 && set.Status.NumberUnavailable == 0
	case "StatefulSet":
		set, err := d.client.AppsV1().StatefulSets(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		selector = set.Spec.Selector
		ready = set.Status.AvailableReplicas == *set.Spec.Replicas // the API server's default is 1
	default:
		return nil, fmt.Errorf("no add-on may wait for a %s: Deployment, DaemonSet and StatefulSet are known", w.Kind)
	}
	if !ready {
		return nil, errors.New("too few of its pods are ready yet")
	}
	return d.client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
}

// describePods says what is known of a namespace's pods: their state, the end of their
// logs, and warnings, which say why there are no pods, too.
func (d *daemon) describePods(namespace string) string {
	// The caller's context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pods, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "    (its pods cannot be listed: " + err.Error() + ")"
	}
	var text strings.Builder
	if len(pods.Items) == 0 {
		_, _ = fmt.Fprintf(&text, "    namespace %s has no pods\n", namespace)
	}
	for _, pod := range pods.Items {
		state, why := podState(&pod)
		_, _ = fmt.Fprintf(&text, "    pod %s: %s %s\n", pod.Name, state, why)
		lines := int64(tailLines)
		log, err := d.client.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
		if err == nil && len(log) > 0 {
			_, _ = fmt.Fprintf(&text, "    %s\n", strings.ReplaceAll(strings.TrimSpace(string(log)), "\n", "\n    "))
		}
	}
	list, err := d.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	if err == nil {
		for _, event := range list.Items {
			_, _ = fmt.Fprintf(&text, "    event on %s %s: %s: %s\n", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
	return strings.TrimRight(text.String(), "\n")
}
