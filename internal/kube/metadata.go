package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// MetadataOptions say what a Metadata store reads.
type MetadataOptions struct {
	// Resource is what is read.
	Resource schema.GroupVersionResource
	// Namespace is the one that is watched; all of them when it is empty.
	// Objects of other namespaces are read one by one.
	Namespace string
	// Annotations are the keys of the annotations that the store keeps of each object.
	// Of the other metadata it keeps name, namespace, uid, generation and
	// resourceVersion only.
	Annotations []string
	// IndexAnnotation is the key, one of Annotations, that WithAnnotation
	// finds objects by.
	IndexAnnotation string
	// FieldManager signs the writes.
	FieldManager string
	// Changed, where set, is called with each object that the watch shows as new
	// or changed, our own writes among them; one call at a time. A Get that
	// follows sees that state or a later one.
	Changed func(namespace, name string)
	// WithoutWatch says, in the log, what no longer works when list or watch is
	// refused.
	WithoutWatch string
	// Logger is told when the watch is refused, and when it is granted again.
	Logger hclog.Logger
}

// Metadata reads the metadata of one kind of object, from a watch where list and
// watch are granted, else with one plain read per Get.
// It needs no cluster to be created: the first call connects, and a call that
// fails leaves nothing behind that keeps the next from succeeding. It is safe
// for concurrent use.
type Metadata struct {
	opts    MetadataOptions
	connect func() (*rest.Config, error)
	// direct makes the requests other than list and watch.
	direct lazyClient

	mu    sync.Mutex
	conn  *watchedMetadata
	stop  chan struct{}
	close sync.Once
}

// watchedMetadata is the watch of a Metadata store.
type watchedMetadata = watched[*metav1.PartialObjectMetadata]

// NewMetadata returns a store that connects with the configuration connect
// returns, at the first call that needs it.
func NewMetadata(connect func() (*rest.Config, error), opts MetadataOptions) *Metadata {
	return &Metadata{opts: opts, connect: connect, direct: lazyClient{connect: connect}, stop: make(chan struct{})}
}

// Close ends the watch. Calls after it still work, by plain reads.
func (m *Metadata) Close() { m.close.Do(func() { close(m.stop) }) }

// Connect makes the client and starts the watch, without waiting for either. It
// is an error when there is no cluster configuration.
func (m *Metadata) Connect() error {
	_, err := m.connection()
	return err
}

// Get returns one object's metadata: from the watch, without a request, or by
// a plain read when there is no watch (yet). An object that does not exist is
// an error for which apierrors.IsNotFound is true.
func (m *Metadata) Get(ctx context.Context, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	conn, err := m.connection()
	if err != nil {
		return nil, err
	}
	if !conn.covers(namespace) || !conn.current() {
		obj, err := m.read(ctx, conn, namespace, name)
		if err != nil {
			return nil, err
		}
		return m.trim(obj), nil
	}
	obj, found, err := conn.written.get(namespace + "/" + name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, apierrors.NewNotFound(m.opts.Resource.GroupResource(), name)
	}
	return obj, nil
}

// Read is Get that always asks the API server, and returns all of the metadata.
func (m *Metadata) Read(ctx context.Context, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	conn, err := m.connection()
	if err != nil {
		return nil, err
	}
	return m.read(ctx, conn, namespace, name)
}

// Watched returns one object's metadata from the watch. It makes no request: ok is
// false while there is no watch to answer from, and the object is nil when it does not
// exist.
func (m *Metadata) Watched(namespace, name string) (object *metav1.PartialObjectMetadata, ok bool) {
	conn, err := m.connection()
	if err != nil || !conn.covers(namespace) || !conn.current() {
		return nil, false
	}
	object, _, err = conn.written.get(namespace + "/" + name)
	return object, err == nil
}

// Annotated returns the objects that have the IndexAnnotation, from the watch;
// ok is false while there is none. It makes no request.
func (m *Metadata) Annotated() (objects []*metav1.PartialObjectMetadata, ok bool) {
	conn, err := m.connection()
	if err != nil || !conn.current() {
		return nil, false
	}
	objects, err = conn.allIndexed(m.opts.IndexAnnotation)
	return objects, err == nil
}

// WithAnnotation returns the objects in namespace whose IndexAnnotation has this value.
// It needs the watch: it waits for the first list, at most as long as wait, and without
// a watch it answers ok = false.
func (m *Metadata) WithAnnotation(ctx context.Context, namespace, value string, wait time.Duration) (objects []*metav1.PartialObjectMetadata, ok bool, err error) {
	conn, err := m.connection()
	if err != nil {
		return nil, false, err
	}
	if !conn.covers(namespace) || !conn.await(ctx, wait) {
		return nil, false, nil
	}
	objects, err = conn.indexed(m.opts.IndexAnnotation, namespace+"/"+value, func(obj *metav1.PartialObjectMetadata) bool {
		return obj.Namespace == namespace && obj.Annotations[m.opts.IndexAnnotation] == value
	})
	return objects, err == nil, err
}

// Annotate sets annotations of an object, and removes those whose value is nil, in one
// request. If the object has changed since obj was read, it is an error for which
// apierrors.IsConflict is true. It returns the object as written; a Get that follows
// sees it.
func (m *Metadata) Annotate(ctx context.Context, obj *metav1.PartialObjectMetadata, annotations map[string]*string) (*metav1.PartialObjectMetadata, error) {
	conn, err := m.connection()
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": obj.ResourceVersion,
		"annotations":     annotations,
	}})
	if err != nil {
		return nil, err
	}
	client, err := m.direct.connection()
	if err != nil {
		return nil, err
	}
	written, err := m.ask(ctx, at(client.Patch(types.MergePatchType), m.opts.Resource, obj.Namespace).
		Name(obj.Name).Param("fieldManager", m.opts.FieldManager).Body(patch))
	if err != nil {
		return nil, err
	}
	written = m.trim(written)
	conn.wrote(written)
	return written, nil
}

func (m *Metadata) read(ctx context.Context, conn *watchedMetadata, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	client, err := m.direct.connection()
	if err != nil {
		return nil, err
	}
	obj, err := m.ask(ctx, at(client.Get(), m.opts.Resource, namespace).Name(name))
	if apierrors.IsNotFound(err) {
		conn.written.forgetDeleted(namespace + "/" + name)
	}
	if err != nil {
		return nil, err
	}
	conn.answered(m.trim(obj))
	return obj, nil
}

// asMetadata is the Accept header for an object's metadata alone.
const asMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// ask makes a request that is answered with the metadata of one object.
func (m *Metadata) ask(ctx context.Context, request *rest.Request) (*metav1.PartialObjectMetadata, error) {
	text, err := body(request.SetHeader("Accept", asMetadata).Do(ctx))
	if err != nil {
		return nil, err
	}
	obj := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(text, obj); err != nil {
		return nil, fmt.Errorf("%s: %w", m.opts.Resource.GroupResource(), err)
	}
	return obj, nil
}

// connection returns the store that the watch fills. The first call that can starts the
// watch.
func (m *Metadata) connection() (*watchedMetadata, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		return m.conn, nil
	}
	cfg, err := m.connect()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", cfg.Host, err)
	}
	resource := client.Resource(m.opts.Resource).Namespace(m.opts.Namespace)
	watched, err := newWatched(&metav1.PartialObjectMetadata{}, watchOptions{
		resource:  m.opts.Resource.GroupResource(),
		namespace: m.opts.Namespace,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		watch:    resource.Watch,
		indexers: m.indexers(),
		transform: func(obj any) (any, error) {
			if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
				return m.trim(o), nil
			}
			return obj, nil
		},
		changed:      m.opts.Changed,
		withoutWatch: m.opts.WithoutWatch,
		logger:       m.opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	go watched.run(m.stop)
	m.conn = watched
	return m.conn, nil
}

// indexers returns an index by IndexAnnotation, if that is set.
func (m *Metadata) indexers() cache.Indexers {
	if m.opts.IndexAnnotation == "" {
		return cache.Indexers{}
	}
	return cache.Indexers{m.opts.IndexAnnotation: func(obj any) ([]string, error) {
		o, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		if value, ok := o.GetAnnotations()[m.opts.IndexAnnotation]; ok {
			return []string{o.GetNamespace() + "/" + value}, nil
		}
		return nil, nil
	}}
}

// trim reduces an object to the metadata that the store keeps, so that thousands fit in
// little memory.
func (m *Metadata) trim(obj *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	trimmed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name:            obj.Name,
		Namespace:       obj.Namespace,
		UID:             obj.UID,
		Generation:      obj.Generation,
		ResourceVersion: obj.ResourceVersion,
	}}
	for _, key := range m.opts.Annotations {
		if value, ok := obj.Annotations[key]; ok {
			if trimmed.Annotations == nil {
				trimmed.Annotations = make(map[string]string, len(m.opts.Annotations))
			}
			trimmed.Annotations[key] = value
		}
	}
	return trimmed
}
