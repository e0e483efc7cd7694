package e2etest

import (
	"context"
	"fmt"
	"os"
	"slices"
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
// a container that the tests of a package share fails the run.
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

// restartWatch notes every restart of a container in some namespaces.
type restartWatch struct {
	namespaces []string
	stop       func()

	mu       sync.Mutex
	counts   map[string]int32 // restarts that are known, by container
	restarts []restart
}

// watchRestarts watches all namespaces that exist now. Earlier restarts do not count.
func watchRestarts(ctx context.Context, kube kubernetes.Interface) (*restartWatch, error) {
	w := &restartWatch{counts: map[string]int32{}}
	namespaces, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		w.note(&pod)
	}
	w.restarts = nil
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var factories []informers.SharedInformerFactory
	w.stop = func() {
		cancel()
		for _, f := range factories {
			f.Shutdown()
		}
	}
	for _, namespace := range namespaces.Items {
		w.namespaces = append(w.namespaces, namespace.Name)
		f := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace.Name))
		factories = append(factories, f)
		if _, err := f.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    w.note,
			UpdateFunc: func(_, now any) { w.note(now) },
		}); err != nil {
			w.stop()
			return nil, err
		}
		f.Start(ctx.Done())
	}
	for _, f := range factories {
		f.WaitForCacheSync(ctx.Done())
	}
	return w, nil
}

// note looks for restarts of a pod's containers that are not known yet.
func (w *restartWatch) note(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		key := string(pod.UID) + "/" + c.Name
		if c.RestartCount <= w.counts[key] {
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

// end stops the watch, and takes in the present state of the pods.
func (w *restartWatch) end(ctx context.Context, kube kubernetes.Interface) error {
	w.stop()
	pods, err := kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if slices.Contains(w.namespaces, pod.Namespace) {
			w.note(&pod)
		}
	}
	return nil
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

// runWatched runs the tests, and fails if a container of a namespace that was there
// before them was restarted and no test had allowed it.
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
	if err := watch.end(ctx, c.Kube); err != nil {
		return failed(err)
	}
	for _, r := range watch.unasked() {
		fmt.Fprintln(os.Stderr, "e2e:", r)
		code = max(code, 1)
	}
	return code
}
