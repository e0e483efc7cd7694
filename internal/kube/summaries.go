package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// SummariesOptions say what Summaries read, and what they keep of it.
type SummariesOptions[S any] struct {
	// Resource is what is read: namespaced objects in a version that the cluster serves.
	Resource schema.GroupVersionResource
	// Namespace is the one that is watched; all of them when it is empty. Objects of other
	// namespaces are read one by one.
	Namespace string
	// Selector selects the objects that are watched by their labels; all of them when it is
	// empty. To others a watch answers that they do not exist.
	Selector string
	// Fields selects the objects that are watched by their fields, as Selector does by labels:
	// with metadata.name a Role that names the object suffices.
	Fields string
	// Summarize turns an object's JSON into the content that is kept beside name,
	// namespace, uid, resourceVersion and labels. It must not keep the JSON. It returns
	// no error, as one object that cannot be read must not keep the others from being
	// watched.
	Summarize func(object []byte) S
	// Changed, where set, is called when the watch shows that an object has changed (before
	// is nil for a new one) or is deleted (after is nil); one call at a time.
	Changed func(before, after *Summary[S])
	// Answered, where set, is called with the error of each list or watch that the API server
	// refuses or does not answer, and with nil when a watch is established.
	Answered func(error)
	// WithoutWatch says, in the log, what no longer works when list or watch is
	// refused.
	WithoutWatch string
	// Logger is told when the watch is refused or fails, and when it is established again.
	Logger hclog.Logger
}

// Summary is what Summaries keep of an object. It is shared, and must not be changed.
type Summary[S any] struct {
	metav1.TypeMeta
	// ObjectMeta has name, namespace, uid, resourceVersion and labels, and nothing else.
	metav1.ObjectMeta
	Content S
}

// DeepCopyObject makes Summary a runtime.Object. A Summary is never changed, so the
// copy shares its content.
func (s *Summary[S]) DeepCopyObject() runtime.Object {
	copied := *s
	return &copied
}

// Summaries read a few fields, often asked for, of the objects of one resource: from a
// watch that keeps those fields alone, where list and watch are granted, else with one
// plain read per Get. They need no cluster to be created: the first call connects and
// begins the watch, and a call that fails leaves nothing behind that keeps the next
// from succeeding. They are safe for concurrent use.
type Summaries[S any] struct {
	opts   SummariesOptions[S]
	client lazyClient

	stop  chan struct{}
	close sync.Once

	mu      sync.Mutex
	watched *watched[*Summary[S]]
}

// reachedEvery is how often AwaitVersion checks whether the watch has caught up.
const reachedEvery = 20 * time.Millisecond

// NewSummaries returns Summaries that connect with the configuration connect returns, at
// the first call that needs it.
func NewSummaries[S any](connect func() (*rest.Config, error), opts SummariesOptions[S]) *Summaries[S] {
	return &Summaries[S]{opts: opts, client: lazyClient{connect: connect}, stop: make(chan struct{})}
}

// Close ends the watch. Calls after it still work, by plain reads.
func (s *Summaries[S]) Close() { s.close.Do(func() { close(s.stop) }) }

// Await begins the watch, unless it has begun, and waits for its first list. It returns
// whether the watch can be read from: false when list or watch is refused, or when ctx
// ends first.
func (s *Summaries[S]) Await(ctx context.Context) (bool, error) {
	w, err := s.connection()
	if err != nil {
		return false, err
	}
	return w.await(ctx, listTimeout), nil
}

// AwaitVersion is Await that also waits until the watch shows everything up to a
// resourceVersion of one object. (The API server numbers the changes of all objects of
// a resource in one sequence, and a watch shows them in that order.) It does not wait
// for that, and returns true, if the watch does not cover the namespace, or the version
// is not a number.
func (s *Summaries[S]) AwaitVersion(ctx context.Context, namespace, name, version string) (bool, error) {
	wanted, noNumber := strconv.ParseUint(version, 10, 64)
	watching, err := s.Await(ctx)
	if err != nil || !watching {
		return false, err
	}
	w, err := s.connection()
	if err != nil || noNumber != nil || !w.covers(namespace) {
		return err == nil, err
	}
	ticker := time.NewTicker(reachedEvery)
	defer ticker.Stop()
	for {
		object, found, err := w.written.get(namespace + "/" + name)
		if err != nil {
			return false, err
		}
		if found {
			if shown, err := strconv.ParseUint(object.ResourceVersion, 10, 64); err != nil || shown >= wanted {
				return w.current(), nil
			}
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-ticker.C:
		}
	}
}

// Get returns one object: from the watch, without a request, or by a plain read when there
// is no watch (yet). An object that does not exist is an error for which
// apierrors.IsNotFound is true.
func (s *Summaries[S]) Get(ctx context.Context, namespace, name string) (*Summary[S], error) {
	w, err := s.connection()
	if err != nil {
		return nil, err
	}
	if !w.covers(namespace) || !w.current() {
		return s.read(ctx, namespace, name)
	}
	object, found, err := w.written.get(namespace + "/" + name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, apierrors.NewNotFound(s.opts.Resource.GroupResource(), name)
	}
	return object, nil
}

// List returns the objects of a namespace whose labels the selector matches, in no
// order. It makes no request: ok is false while there is no watch of the namespace to
// answer from.
func (s *Summaries[S]) List(namespace string, selector labels.Selector) (objects []*Summary[S], ok bool) {
	w, err := s.connection()
	if err != nil || !w.covers(namespace) || !w.current() {
		return nil, false
	}
	objects, err = w.indexed(indexByNamespace, namespace, func(object *Summary[S]) bool {
		return object.Namespace == namespace && selector.Matches(labels.Set(object.Labels))
	})
	return objects, err == nil
}

// Seen returns the objects of a namespace as the watch last showed them, in no order, also
// while there is no watch. It makes no request.
func (s *Summaries[S]) Seen(namespace string) []*Summary[S] {
	s.mu.Lock()
	w := s.watched
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	objects, err := w.indexed(indexByNamespace, namespace, func(object *Summary[S]) bool { return object.Namespace == namespace })
	if err != nil {
		panic(err) // never: the index exists, and its keys are of the store
	}
	return objects
}

func (s *Summaries[S]) read(ctx context.Context, namespace, name string) (*Summary[S], error) {
	client, err := s.client.connection()
	if err != nil {
		return nil, err
	}
	text, err := body(at(client.Get(), s.opts.Resource, namespace).Name(name).Do(ctx))
	if err != nil {
		return nil, err
	}
	return s.keep(text)
}

func (s *Summaries[S]) keep(object []byte) (*Summary[S], error) {
	var fields struct {
		Metadata struct {
			Name            string            `json:"name"`
			Namespace       string            `json:"namespace"`
			UID             types.UID         `json:"uid"`
			ResourceVersion string            `json:"resourceVersion"`
			Labels          map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, fmt.Errorf("%s: metadata: %w", s.opts.Resource.GroupResource(), err)
	}
	m := fields.Metadata
	kept := &Summary[S]{Content: s.opts.Summarize(object)}
	kept.Name, kept.Namespace, kept.ResourceVersion, kept.Labels = m.Name, m.Namespace, m.ResourceVersion, m.Labels
	kept.UID = m.UID
	return kept, nil
}

// connection makes the client and begins the watch, once.
func (s *Summaries[S]) connection() (*watched[*Summary[S]], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched != nil {
		return s.watched, nil
	}
	client, err := s.client.connection()
	if err != nil {
		return nil, err
	}
	reader := reader[*Summary[S]]{client: client, resource: s.opts.Resource, namespace: s.opts.Namespace, keep: s.keep}
	w, err := newWatched(&Summary[S]{}, watchOptions{
		resource:  s.opts.Resource.GroupResource(),
		namespace: s.opts.Namespace,
		list: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			return reader.list(ctx, Selection{Labels: s.opts.Selector, Fields: s.opts.Fields})
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector, options.FieldSelector = s.opts.Selector, s.opts.Fields
			return reader.watch(ctx, options)
		},
		indexers:     cache.Indexers{indexByNamespace: cache.MetaNamespaceIndexFunc},
		answered:     s.opts.Answered,
		withoutWatch: s.opts.WithoutWatch,
		logger:       s.opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	if s.opts.Changed != nil {
		if _, err := w.informer.AddEventHandler(s.handler()); err != nil {
			return nil, err
		}
	}
	go w.run(s.stop)
	s.watched = w
	return w, nil
}

func (s *Summaries[S]) handler() cache.ResourceEventHandler {
	summary := func(obj any) *Summary[S] {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		kept, _ := obj.(*Summary[S])
		return kept
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.opts.Changed(nil, summary(obj)) },
		UpdateFunc: func(before, after any) { s.opts.Changed(summary(before), summary(after)) },
		DeleteFunc: func(obj any) { s.opts.Changed(summary(obj), nil) },
	}
}
