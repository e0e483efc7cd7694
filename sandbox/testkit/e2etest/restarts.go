package e2etest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// AllowRestarts allows containers of a namespace to be restarted during the test:
// those of the named pods, or of any pod if none is named. Without it, the restart of
// a container that the tests of a package share, or that has one of our images, fails the
// run.
func AllowRestarts(t testing.TB, namespace string, pods ...string) {
	a := &allowance{namespace: namespace, pods: pods, begun: time.Now()}
	allowed.mu.Lock()
	allowed.all = append(allowed.all, a)
	allowed.mu.Unlock()
	t.Cleanup(func() {
		allowed.mu.Lock()
		defer allowed.mu.Unlock()
		a.over = time.Now()
	})
}

// Restarts is how often containers of a pod were started again.
func Restarts(pod corev1.Pod) int32 {
	var n int32
	for _, status := range pod.Status.ContainerStatuses {
		n += status.RestartCount
	}
	return n
}

// An allowance permits containers of a namespace to end while a test runs.
type allowance struct {
	namespace   string
	pods        []string
	begun, over time.Time
}

var allowed struct {
	mu  sync.Mutex
	all []*allowance
}

// restart is the end of a container that was started again.
type restart struct {
	namespace, pod, container string
	how                       string
	at                        time.Time
}

func (r restart) String() string {
	return fmt.Sprintf("container %s of pod %s/%s was restarted at %s and no test asked for it: %s",
		r.container, r.namespace, r.pod, r.at.Format(time.TimeOnly), r.how)
}

func (a *allowance) covers(r restart) bool {
	// Kubernetes reports times in whole seconds.
	return a.namespace == r.namespace && (len(a.pods) == 0 || slices.Contains(a.pods, r.pod)) &&
		!r.at.Before(a.begun.Truncate(time.Second)) && (a.over.IsZero() || !r.at.After(a.over))
}

// ours are what the images begin with that a canary needs: they are watched in every
// namespace, and the other containers in the namespaces that tests share.
var ours = []string{"ghcr.io/kedify/argo-rollouts-interceptor:", "quay.io/argoproj/argo-rollouts:", "envoyproxy/envoy:"}

// restartWatch notes the restarts of containers.
type restartWatch struct {
	shared map[string]bool // namespaces
	stop   func()

	mu       sync.Mutex
	counts   map[string]int32 // restarts that are known, by container
	restarts []restart
}

// watchRestarts watches the pods of all namespaces. The tests share the namespaces that
// exist now. Earlier restarts do not count.
func watchRestarts(ctx context.Context, kube kubernetes.Interface) (*restartWatch, error) {
	w := &restartWatch{shared: map[string]bool{}, counts: map[string]int32{}}
	namespaces, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, namespace := range namespaces.Items {
		w.shared[namespace.Name] = true
	}
	if err := w.noteAll(ctx, kube); err != nil {
		return nil, err
	}
	w.restarts = nil
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	factory := informers.NewSharedInformerFactory(kube, 0)
	w.stop = func() {
		cancel()
		factory.Shutdown()
	}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.note,
		UpdateFunc: func(_, now any) { w.note(now) },
	}); err != nil {
		w.stop()
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return w, nil
}

// noteAll notes the restarts of all pods that there are.
func (w *restartWatch) noteAll(ctx context.Context, kube kubernetes.Interface) error {
	pods, err := kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		w.note(&pod)
	}
	return nil
}

// note looks for restarts of a pod's containers that are not known yet.
func (w *restartWatch) note(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	images := map[string]string{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		images[c.Name] = c.Image
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		watched := w.shared[pod.Namespace] || slices.ContainsFunc(ours, func(image string) bool { return strings.HasPrefix(images[c.Name], image) })
		key := string(pod.UID) + "/" + c.Name
		if !watched || c.RestartCount <= w.counts[key] {
			continue
		}
		w.counts[key] = c.RestartCount
		r := restart{pod.Namespace, pod.Name, c.Name, "how it ended is not known", time.Now()}
		if last := c.LastTerminationState.Terminated; last != nil {
			r.how, r.at = fmt.Sprintf("%s, exit code %d %s", last.Reason, last.ExitCode, last.Message), last.FinishedAt.Time
		}
		w.restarts = append(w.restarts, r)
	}
}

// unasked returns the restarts that no test has allowed.
func (w *restartWatch) unasked() []restart {
	w.mu.Lock()
	defer w.mu.Unlock()
	allowed.mu.Lock()
	defer allowed.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.restarts), func(r restart) bool {
		return slices.ContainsFunc(allowed.all, func(a *allowance) bool { return a.covers(r) })
	})
}

// runWatched runs the tests, and fails if a container that is watched was restarted and no
// test had allowed it.
func runWatched(run func() int) int {
	failed := func(err error) int {
		fmt.Fprintln(os.Stderr, "e2e: watching for restarts:", err)
		return 1
	}
	ctx := context.Background()
	c, err := connect()
	if err != nil {
		return failed(err)
	}
	watch, err := watchRestarts(ctx, c.Kube)
	if err != nil {
		return failed(err)
	}
	code := run()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	watch.stop()
	if err := watch.noteAll(ctx, c.Kube); err != nil {
		return failed(err)
	}
	for _, r := range watch.unasked() {
		fmt.Fprintln(os.Stderr, "e2e:", r)
		code = max(code, 1)
	}
	return code
}
