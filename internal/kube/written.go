package kube

import (
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// written lays the answers to our own writes over a watch's store until the
// watch has caught up, so that a read after a write sees that write however
// far behind the watch is. (client-go's mutation cache does the same, but
// forgets writes past the hundredth.)
type written struct {
	store cache.Store

	mu      sync.Mutex
	objects map[string]*metav1.PartialObjectMetadata
}

func newWritten(store cache.Store) *written {
	return &written{store: store, objects: map[string]*metav1.PartialObjectMetadata{}}
}

// put records the answer to a write, unless the watch has that state or a later
// one. current tells whether the store holds what a watch delivers: an object
// that it lacks has been deleted then, and has not been listed yet otherwise.
func (w *written) put(obj *metav1.PartialObjectMetadata, current bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := obj.Namespace + "/" + obj.Name
	stored, found, err := w.store.GetByKey(key)
	if err != nil || (found && !older(stored, obj)) || (!found && current) {
		return
	}
	w.objects[key] = obj
}

// get returns the later of the stored object and what was written to it. The
// store is read under the lock: read before, it could be older than a write
// that the handler has just forgotten.
func (w *written) get(key string) (obj *metav1.PartialObjectMetadata, found bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stored, found, err := w.store.GetByKey(key)
	if err != nil || !found {
		return nil, false, err
	}
	if obj, ok := w.objects[key]; ok && older(stored, obj) {
		return obj, true, nil
	}
	return stored.(*metav1.PartialObjectMetadata), true, nil
}

// addTo returns keys and, once each, those of all objects with a write that the
// watch has not caught up with.
func (w *written) addTo(keys []string) []string {
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
func (w *written) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    w.seen,
		UpdateFunc: func(_, obj any) { w.seen(obj) },
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				w.gone(key)
			}
		},
	}
}

// seen forgets the write to an object whose state, as the watch or a read has
// it, is not older than the write.
func (w *written) seen(obj any) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if mine, ok := w.objects[key]; ok && !older(obj, mine) {
		delete(w.objects, key)
	}
}

// gone forgets the write to an object that has been deleted.
func (w *written) gone(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, key)
}

// older tells whether an object's state is older than another's of the same
// name. Resource versions are compared as numbers, as every API server of
// Kubernetes gives them out; any other kind is older when it differs.
func older(obj any, than *metav1.PartialObjectMetadata) bool {
	o, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	a, errA := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	b, errB := strconv.ParseUint(than.ResourceVersion, 10, 64)
	if errA != nil || errB != nil {
		return o.GetResourceVersion() != than.ResourceVersion
	}
	return a < b
}
