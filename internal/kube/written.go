package kube

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// written lays the API server's answers to our own requests over a watch's store
// until the watch has caught up, so that a read after a write sees that write
// however far behind the watch is. (client-go's mutation cache does the same, but
// forgets writes past the hundredth.)
type written[T metav1.Object] struct {
	store cache.Store

	mu      sync.Mutex
	objects map[string]answer[T]
}

// answer is an object as the API server has answered a request of ours.
type answer[T metav1.Object] struct {
	object T
	at     time.Time
}

// unseenFor is how long an answer counts for an object that the watch does not
// show. A watch is seldom seconds behind; an object that is still not there
// after that has been deleted.
const unseenFor = 10 * time.Second

func newWritten[T metav1.Object](store cache.Store) *written[T] {
	return &written[T]{store: store, objects: map[string]answer[T]{}}
}

// put records the API server's answer to a write, or to a read past the watch,
// unless the watch or an earlier answer has that state or a later one.
func (w *written[T]) put(obj T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := obj.GetNamespace() + "/" + obj.GetName()
	stored, found, err := w.store.GetByKey(key)
	if err != nil || (found && !older(stored, obj)) {
		return
	}
	if earlier, ok := w.objects[key]; ok && older(obj, earlier.object) {
		return
	}
	w.objects[key] = answer[T]{obj, time.Now()}
}

// get returns the later of the stored object and its recorded answer. An object that
// the watch does not show is found for a while after its answer. The store is read
// under the lock: read before, the object could be older than an answer that the
// handler has just forgotten.
func (w *written[T]) get(key string) (obj T, found bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stored, found, err := w.store.GetByKey(key)
	if err != nil {
		return obj, false, err
	}
	own, answered := w.objects[key]
	switch {
	case found && answered && older(stored, own.object):
		return own.object, true, nil
	case found:
		return stored.(T), true, nil
	case answered && time.Since(own.at) < unseenFor:
		return own.object, true, nil
	}
	delete(w.objects, key)
	return obj, false, nil
}

// addTo returns keys and, once each, those of all objects with a write that the
// watch has not caught up with.
func (w *written[T]) addTo(keys []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.objects {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// handler forgets a write when the watch has caught up with it. The store is
// always updated before handlers run, and put and get look at the store under
// the lock that forgetting takes: no write stays behind, and none is missed.
func (w *written[T]) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    w.forgetCaughtUp,
		UpdateFunc: func(_, obj any) { w.forgetCaughtUp(obj) },
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				w.forgetDeleted(key)
			}
		},
	}
}

// forgetCaughtUp forgets the write to an object whose state, as the watch or a read has
// it, is not older than the write.
func (w *written[T]) forgetCaughtUp(obj any) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if own, ok := w.objects[key]; ok && !older(obj, own.object) {
		delete(w.objects, key)
	}
}

// forgetDeleted forgets the write to an object that has been deleted.
func (w *written[T]) forgetDeleted(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, key)
}

// older tells whether an object's state is older than another's of the same name.
// Resource versions are compared as numbers, as every Kubernetes API server issues
// them; one that is not a number counts as older when it differs.
func older(obj any, than metav1.Object) bool {
	o, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	a, errA := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	b, errB := strconv.ParseUint(than.GetResourceVersion(), 10, 64)
	if errA != nil || errB != nil {
		return o.GetResourceVersion() != than.GetResourceVersion()
	}
	return a < b
}
