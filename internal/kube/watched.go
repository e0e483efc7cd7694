package kube

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// stored is what a watch's store can hold.
type stored interface {
	metav1.Object
	runtime.Object
}

// watchOptions say what a watched store is filled with.
type watchOptions struct {
	resource schema.GroupResource
	// namespace is the one that list and watch are of; all when it is empty.
	namespace string
	list      func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch     func(context.Context, metav1.ListOptions) (watch.Interface, error)
	indexers  cache.Indexers
	// transform, where set, turns each object into what is stored.
	transform cache.TransformFunc
	// changed, where set, is called with each object that is new or has changed.
	changed func(namespace, name string)
	// answered, where set, is SummariesOptions.Answered.
	answered func(error)
	// withoutWatch says, in the log, what no longer works when list or watch is
	// refused.
	withoutWatch string
	logger       hclog.Logger
}

// watched holds the objects of one resource as a watch shows them, overlaid with the
// answers to our own requests.
type watched[T stored] struct {
	opts     watchOptions
	informer cache.SharedIndexInformer
	written  *written[T]
	// watching is true while list and watch are granted. Other failures (an API server
	// that cannot be reached) do not change it: the last known state is then the best
	// there is.
	watching atomic.Bool
	// failing is true from a list or watch that has failed, other than by a
	// refusal, to the next watch that is established.
	failing atomic.Bool
	// tried is closed when the first list has been answered or has failed.
	tried     chan struct{}
	triedOnce sync.Once
}

// newWatched returns a store of objects of example's type, which run fills.
func newWatched[T stored](example T, opts watchOptions) (*watched[T], error) {
	w := &watched[T]{opts: opts, tried: make(chan struct{})}
	w.informer = cache.NewSharedIndexInformer(w.listWatch(), example, 0, opts.indexers)
	if opts.transform != nil {
		if err := w.informer.SetTransform(opts.transform); err != nil {
			return nil, err
		}
	}
	w.written = newWritten[T](w.informer.GetStore())
	if _, err := w.informer.AddEventHandler(w.written.handler()); err != nil {
		return nil, err
	}
	if opts.changed != nil {
		changed := func(obj any) {
			if o, ok := obj.(T); ok {
				opts.changed(o.GetNamespace(), o.GetName())
			}
		}
		handler := cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }}
		if _, err := w.informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// run fills the store until stop is closed. After that it is not current.
func (w *watched[T]) run(stop <-chan struct{}) {
	go func() {
		// The first list is decoded as a whole. Give its memory back to the operating
		// system at once, since nothing as large follows.
		if cache.WaitForCacheSync(stop, w.informer.HasSynced) {
			debug.FreeOSMemory()
		}
	}()
	w.informer.Run(stop)
	w.watching.Store(false)
}

// current tells whether the store can be read from.
func (w *watched[T]) current() bool { return w.watching.Load() && w.informer.HasSynced() }

// await waits for the first list to be answered and to be in the store, and
// returns whether the store can be read from then.
func (w *watched[T]) await(ctx context.Context, wait time.Duration) bool {
	if w.current() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-w.tried:
	case <-ctx.Done():
	}
	if !w.watching.Load() {
		return false
	}
	cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced)
	return w.current()
}

// indexed returns the matching objects that an index has under a value, and the
// matching ones among our own writes, which the index may not have yet.
func (w *watched[T]) indexed(index, value string, matches func(T) bool) ([]T, error) {
	keys, err := w.informer.GetIndexer().IndexKeys(index, value)
	if err != nil {
		return nil, err
	}
	var objects []T
	for _, key := range w.written.addTo(keys) {
		obj, found, err := w.written.get(key)
		if err != nil {
			return nil, err
		}
		if found && matches(obj) {
			objects = append(objects, obj)
		}
	}
	return objects, nil
}

// allIndexed returns the objects that an index has under any value, each once and as
// our own writes have left it. An object that belongs in the index only since such a
// write may be missing, and one that no longer belongs in it may still be returned.
func (w *watched[T]) allIndexed(index string) ([]T, error) {
	indexer := w.informer.GetIndexer()
	seen := map[string]bool{}
	var objects []T
	for _, value := range indexer.ListIndexFuncValues(index) {
		keys, err := indexer.IndexKeys(index, value)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			obj, found, err := w.written.get(key)
			if err != nil {
				return nil, err
			}
			if found && !seen[key] {
				seen[key] = true
				objects = append(objects, obj)
			}
		}
	}
	return objects, nil
}

// covers tells whether the watch is of this namespace.
func (w *watched[T]) covers(namespace string) bool {
	return w.opts.namespace == "" || w.opts.namespace == namespace
}

// wrote records what the API server has answered to a write.
func (w *watched[T]) wrote(obj T) {
	if w.covers(obj.GetNamespace()) {
		w.written.put(obj)
	}
}

// answered records what the API server has answered to a read past the watch.
func (w *watched[T]) answered(obj T) {
	if w.current() {
		w.wrote(obj)
	} else {
		w.written.forgetCaughtUp(obj)
	}
}

// listWatch lists and watches, and keeps w.watching in line with what the API server
// grants.
func (w *watched[T]) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := w.opts.list(ctx, options)
			w.granted(ctx, "list", err)
			if err != nil {
				w.triedOnce.Do(func() { close(w.tried) })
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watcher, err := w.opts.watch(ctx, options)
			w.granted(ctx, "watch", err)
			w.triedOnce.Do(func() { close(w.tried) })
			return watcher, err
		},
	}
}

func (w *watched[T]) granted(ctx context.Context, verb string, err error) {
	resource := w.opts.resource.String()
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err) // it is listed anew
	if w.opts.answered != nil && ctx.Err() == nil && !expired && (err != nil || verb == "watch") {
		w.opts.answered(err)
	}
	switch {
	case ctx.Err() != nil: // the watch is being ended
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		if w.watching.Swap(false) || !w.hasTried() {
			w.opts.logger.Warn("no watch: "+w.opts.withoutWatch, "resource", resource, "verb", verb, "error", err)
		}
	case err == nil && verb == "watch":
		if failing := w.failing.Swap(false); (!w.watching.Swap(true) && w.hasTried()) || failing {
			w.opts.logger.Info("watch established", "resource", resource)
		}
	case err != nil && !expired:
		if !w.failing.Swap(true) {
			w.opts.logger.Warn("the watch has failed and is tried again", "resource", resource, "verb", verb, "error", err)
		}
	}
}

func (w *watched[T]) hasTried() bool {
	select {
	case <-w.tried:
		return true
	default:
		return false
	}
}
