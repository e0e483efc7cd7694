package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/dns"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/loadbalancer"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/podnet"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/serviceproxy"
)

// node is one run of the node.
type node struct {
	cfg       Config
	client    kubernetes.Interface
	events    record.EventRecorder
	addresses *podnet.Allocator
	spawner   *spawner
	sources   sources
	services  corelisters.ServiceLister

	mu       sync.Mutex
	workers  map[types.UID]*worker
	stopping bool
}

// Run registers the node, runs its pods, and serves cluster DNS, Services and the
// kubelet API until ctx ends; then it stops all pods and returns nil. An error
// says what could not be served; all pods are stopped then, too. SetUpNetwork must
// have been called before. The messages of client-go go to cfg.Log, in the whole
// process.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := podnet.RemoveLeftovers(); err != nil {
		return fmt.Errorf("node %s: %w", cfg.Name, err)
	}
	klog.SetSlogLogger(cfg.Log.With("part", "client"))
	n, err := newNode(cfg)
	if err != nil {
		return err
	}
	defer n.spawner.close()

	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: n.client.CoreV1().Events("")})

	all := informers.NewSharedInformerFactory(n.client, 0)
	mine := informers.NewSharedInformerFactoryWithOptions(n.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", cfg.Name).String()
	}))
	recorder := func(component string) record.EventRecorder {
		return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component, Host: cfg.Name})
	}
	n.events = recorder("kubelet")
	proxy, err := serviceproxy.New(all, serviceproxy.Node{Name: cfg.Name, IP: cfg.NodeIP}, recorder("kube-proxy"), cfg.Log.With("part", "services"))
	if err != nil {
		return err
	}
	balancer, err := loadbalancer.New(all, n.client, cfg.LoadBalancerCIDR, recorder("service-controller"), cfg.Log.With("part", "load balancer"))
	if err != nil {
		return err
	}
	names := dns.New(all, netip.AddrPortFrom(cfg.ClusterDNS, 53), cfg.Hosts, cfg.Log.With("part", "dns"))
	if err := n.watch(all, mine); err != nil {
		return err
	}
	api, err := n.listenAPI()
	if err != nil {
		return err
	}

	var wg sync.WaitGroup
	// The first part that fails ends all of them.
	part := func(run func() error) {
		wg.Go(func() {
			if err := run(); err != nil {
				cancel(err)
			}
		})
	}
	part(func() error { return api.serve(ctx) })
	part(func() error { return names.Run(ctx) })
	part(func() error { proxy.Run(ctx); return nil })
	part(func() error { balancer.Run(ctx); return nil })
	part(func() error { n.register(ctx); return nil })
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
	// Watch pods only once the objects that they refer to are in the caches.
	mine.Start(ctx.Done())
	part(func() error { n.clean(ctx, mine.Core().V1().Pods()); return nil })
	cfg.Log.Info("node runs", "name", cfg.Name, "address", cfg.NodeIP)

	<-ctx.Done()
	n.stopPods()
	wg.Wait()
	all.Shutdown()
	mine.Shutdown()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("node %s: %w", cfg.Name, err)
	}
	return nil
}

func newNode(cfg Config) (*node, error) {
	config := rest.CopyConfig(cfg.RESTConfig)
	// No client-side rate limit: it would delay a node that starts a hundred pods.
	// The API server's priority and fairness limits the node.
	config.QPS, config.Burst = -1, 0
	config.UserAgent = "sandbox-node"
	config.Dial = dialPatiently
	// Watches and statuses of pods are most of the node's traffic.
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("node %s: client: %w", cfg.Name, err)
	}
	addresses, err := podnet.NewAllocator(cfg.PodCIDR, cfg.firstPodIP())
	if err != nil {
		return nil, fmt.Errorf("node %s: pod addresses: %w", cfg.Name, err)
	}
	for _, dir := range []string{cfg.podsDir(), cfg.logsDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("node %s: %w", cfg.Name, err)
		}
	}
	return &node{
		cfg: cfg, client: client, addresses: addresses, spawner: newSpawner(), workers: map[types.UID]*worker{},
	}, nil
}

// watch starts a worker for each pod of the node, and tells workers of changes that
// may concern them.
func (n *node) watch(all, mine informers.SharedInformerFactory) error {
	configMaps, secrets := all.Core().V1().ConfigMaps(), all.Core().V1().Secrets()
	n.services = all.Core().V1().Services().Lister()
	n.sources = watchedSources{client: n.client, configMaps: configMaps.Lister(), secrets: secrets.Lister()}
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc:    n.refresh,
		UpdateFunc: func(_, object any) { n.refresh(object) },
		DeleteFunc: n.refresh,
	}
	for _, informer := range []cache.SharedIndexInformer{configMaps.Informer(), secrets.Informer()} {
		if _, err := informer.AddEventHandler(changed); err != nil {
			return fmt.Errorf("node %s: watch: %w", n.cfg.Name, err)
		}
	}
	_, err := mine.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { n.podChanged(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { n.podChanged(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				n.podGone(pod)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("node %s: watch pods: %w", n.cfg.Name, err)
	}
	return nil
}

func (n *node) podChanged(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopping {
		return
	}
	if w, ok := n.workers[pod.UID]; ok {
		w.update(pod)
		return
	}
	// The pod was deleted and created again under the same name while the watch was
	// interrupted: the deletion of the old one was not seen.
	for uid, w := range n.workers {
		if w.key.Namespace == pod.Namespace && w.key.Name == pod.Name && uid != pod.UID {
			w.remove()
		}
	}
	w := newWorker(n, pod)
	n.workers[pod.UID] = w
	go func() {
		w.run()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.workers, w.uid)
	}()
}

func (n *node) podGone(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w, ok := n.workers[pod.UID]; ok {
		w.remove()
	}
}

// refresh tells the pods of a namespace that one of its objects changed.
func (n *node) refresh(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.workers {
		if w.key.Namespace == accessor.GetNamespace() {
			w.refresh()
		}
	}
}

// worker returns the worker of a pod, or nil. After a forced deletion there can be two
// pods of the name for a moment; it returns either.
func (n *node) worker(namespace, name string) *worker {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.workers {
		if w.key.Namespace == namespace && w.key.Name == name {
			return w
		}
	}
	return nil
}

func (n *node) allServices() []*corev1.Service {
	list, err := n.services.List(labels.Everything())
	if err != nil {
		return nil
	}
	return list
}

// stopPods ends all pods and waits until nothing of them is left.
func (n *node) stopPods() {
	n.mu.Lock()
	n.stopping = true
	var workers []*worker
	for _, w := range n.workers {
		workers = append(workers, w)
	}
	n.mu.Unlock()
	for _, w := range workers {
		w.shutdown()
	}
	for _, w := range workers {
		<-w.done
	}
}

// clean removes the files of pods that were deleted while no node ran.
func (n *node) clean(ctx context.Context, pods interface {
	Informer() cache.SharedIndexInformer
	Lister() corelisters.PodLister
}) {
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
		return
	}
	list, err := pods.Lister().List(labels.Everything())
	if err != nil {
		return
	}
	known := map[string]bool{}
	for _, pod := range list {
		known[string(pod.UID)] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid := range n.workers {
		known[string(uid)] = true
	}
	for _, dir := range []string{n.cfg.podsDir(), n.cfg.logsDir()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			n.cfg.Log.Warn("clean up", "err", err)
			continue
		}
		for _, e := range entries {
			uid := e.Name()[strings.LastIndexByte(e.Name(), '_')+1:]
			if known[uid] {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				n.cfg.Log.Warn("clean up", "err", err)
			}
		}
	}
}
