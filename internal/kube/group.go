package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// listTimeout bounds the first list of a watch, so that a list that hangs is started
// again. Calls do not wait for it.
const listTimeout = 2 * time.Minute

// GroupOptions say what a Group reads and writes.
type GroupOptions struct {
	// Group is the API group, such as gateway.networking.k8s.io.
	Group string
	// Kinds are the kinds of namespaced objects that are read and written. Asking
	// for any other is an error.
	Kinds []string
	// Namespace is the one that is watched; all of them when it is empty.
	// Objects of other namespaces are read one by one.
	Namespace string
	// Index, where set, returns the keys by which Indexed finds an object with
	// this metadata (without managedFields). It must not keep or change it.
	Index func(*metav1.ObjectMeta) []string
	// FieldManager signs the writes.
	FieldManager string
	// Changed, where set, is called with each object that a watch shows as new or
	// changed, our own writes among them; one call at a time for each kind. A Get
	// that follows sees that state or a later one.
	Changed func(kind, namespace, name string)
	// WithoutWatch says, in the log, what no longer works when list or watch is
	// refused.
	WithoutWatch string
	// Logger is told when a watch is refused or fails, and when it is established
	// again.
	Logger hclog.Logger
}

// Group reads and writes whole objects of some kinds of one API group, each in a
// version that the cluster serves: the one it prefers if that has the kind, else any. A
// kind is watched from its first use on, where list and watch are granted; else each
// Get is one plain read. A kind that is not served, or may not be watched, does not
// affect the others.
//
// The cluster is asked for its versions again every ten minutes, and when a kind is not
// found, then at most every few seconds; calls do not wait for that, but use the last
// answer. When a kind's version changes, its watch moves there, and objects come in the
// new version from then on.
//
// Objects that are returned are the caller's own. Those from a watch have no
// metadata.managedFields; Read has them. A Group needs no cluster to be created:
// the first call connects, and a call that fails leaves nothing behind that keeps
// the next from succeeding. It is safe for concurrent use.
type Group struct {
	opts      GroupOptions
	client    lazyClient
	discovery *discovery
	refused   refusals

	// every is how often discovery is repeated; tests shorten it.
	every time.Duration

	stop       chan struct{}
	close      sync.Once
	background sync.Once

	mu      sync.Mutex
	sources map[string]*source // by kind
}

// source is one kind in one version, and the watch of it.
type source struct {
	*watched[*encoded]
	client   rest.Interface
	kind     string
	resource schema.GroupVersionResource
	// apiVersion is the group and version of the resource, as its objects state it.
	apiVersion string
	end        func()
}

const (
	indexByNamespace = cache.NamespaceIndex
	indexByKey       = "key"
)

// NewGroup returns a Group that connects with the configuration connect returns,
// at the first call that needs it.
func NewGroup(connect func() (*rest.Config, error), opts GroupOptions) *Group {
	g := &Group{
		opts:    opts,
		client:  lazyClient{connect: connect},
		every:   discoverEvery,
		stop:    make(chan struct{}),
		sources: map[string]*source{},
	}
	g.discovery = &discovery{connection: g.client.connection, group: opts.Group, atMost: discoverAtMost, learned: g.follow}
	return g
}

// Close ends the watches. Calls after it still work, by plain reads.
func (g *Group) Close() { g.close.Do(func() { close(g.stop) }) }

// Get returns one object: from the watch, without a request, or by a plain read
// when there is no watch (yet). An object that does not exist is an error for
// which apierrors.IsNotFound is true; a kind that the cluster does not serve is a
// *NotServedError, for which it is not.
func (g *Group) Get(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	s, err := g.source(ctx, kind)
	if err != nil {
		return nil, err
	}
	if !s.covers(namespace) || !s.current() {
		object, err := g.Read(ctx, kind, namespace, name)
		if err != nil {
			return nil, err
		}
		unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
		return object, nil
	}
	object, found, err := s.written.get(namespace + "/" + name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, apierrors.NewNotFound(s.resource.GroupResource(), name)
	}
	return object.decode()
}

// Read is Get that always asks the API server, and returns managedFields, too.
func (g *Group) Read(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	var text []byte
	err := g.request(ctx, kind, func(s *source) (err error) {
		text, err = body(at(s.client.Get(), s.resource, namespace).Name(name).Do(ctx))
		switch {
		case IsPathUnknown(err):
		case apierrors.IsNotFound(err):
			s.written.forgetDeleted(namespace + "/" + name)
		case err == nil:
			_, err = g.answered(kind, text, (*watched[*encoded]).answered)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return decode(text)
}

// Watched returns one object from the watch. It makes no request: ok is false while
// there is no watch to answer from, and the object is nil when it does not exist.
func (g *Group) Watched(kind, namespace, name string) (object *unstructured.Unstructured, ok bool) {
	_, stored, ok := g.stored(kind, namespace, name)
	if stored == nil {
		return nil, ok
	}
	object, err := stored.decode()
	return object, err == nil
}

// stored returns an object as the watch has it, nil when it does not exist, and its
// source.
func (g *Group) stored(kind, namespace, name string) (s *source, object *encoded, ok bool) {
	s = g.known(kind)
	if s == nil || !s.covers(namespace) || !s.current() {
		return nil, nil, false
	}
	object, _, err := s.written.get(namespace + "/" + name)
	return s, object, err == nil
}

// known returns the source of a kind; nil before its first use.
func (g *Group) known(kind string) *source {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sources[kind]
}

// List returns the objects of a kind in a namespace whose labels the selector
// matches, by name: from the watch, or by a list when there is no watch (yet).
func (g *Group) List(ctx context.Context, kind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, error) {
	s, err := g.source(ctx, kind)
	if err != nil {
		return nil, err
	}
	var found []*encoded
	if s.covers(namespace) && s.current() {
		found, err = s.list(namespace, selector)
	} else {
		err = g.request(ctx, kind, func(s *source) error {
			list, err := g.reader(s.client, s.resource, namespace).list(ctx, Selection{Labels: selector.String()})
			if err == nil {
				found = list.Items
			}
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return decodeAll(found)
}

// Keyed describes an object for which GroupOptions.Index returns keys, without its
// content.
type Keyed struct {
	Namespace, Name string
	Labels          map[string]string // not to be changed
	Keys            []string          // not to be changed
}

// Keyed returns the objects of a kind for which GroupOptions.Index returns any key,
// from the watch, in no order. It makes no request: ok is false while there is no watch
// to answer from.
func (g *Group) Keyed(kind string) (objects []Keyed, ok bool) {
	g.mu.Lock()
	s := g.sources[kind]
	g.mu.Unlock()
	if s == nil || !s.current() {
		return nil, false
	}
	found, err := s.allIndexed(indexByKey)
	for _, object := range found {
		if len(object.keys) > 0 {
			objects = append(objects, Keyed{object.Namespace, object.Name, object.Labels, object.keys})
		}
	}
	return objects, err == nil
}

// Watch starts the watch of a kind, as its first use does, and does not wait for the
// first list. It is an error when the cluster does not serve the kind, or cannot be
// asked.
func (g *Group) Watch(ctx context.Context, kind string) error {
	_, err := g.source(ctx, kind)
	return err
}

// Indexed returns the objects of a kind, of all namespaces that are watched, for which
// GroupOptions.Index returns key, by namespace and name. It needs the watch: it waits
// for the first discovery and the first list, at most as long as wait, and without a
// watch it answers ok = false. It does not ask the cluster again about a kind that was
// not served.
func (g *Group) Indexed(ctx context.Context, kind, key string, wait time.Duration) (objects []*unstructured.Unstructured, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	s, err := g.sourceAs(ctx, kind, false)
	if err != nil {
		return nil, false, err
	}
	if !s.await(ctx, wait) {
		return nil, false, nil
	}
	found, err := s.withKey(key)
	if err != nil {
		return nil, false, err
	}
	objects, err = decodeAll(found)
	return objects, err == nil, err
}

// list returns the objects of a namespace, as the watch has them, whose labels the
// selector matches.
func (s *source) list(namespace string, selector labels.Selector) ([]*encoded, error) {
	return s.indexed(indexByNamespace, namespace, func(object *encoded) bool {
		return object.Namespace == namespace && selector.Matches(labels.Set(object.Labels))
	})
}

// withKey returns the objects that the watch has under a key of GroupOptions.Index.
func (s *source) withKey(key string) ([]*encoded, error) {
	return s.indexed(indexByKey, key, func(object *encoded) bool { return slices.Contains(object.keys, key) })
}

func decodeAll(found []*encoded) ([]*unstructured.Unstructured, error) {
	sortByName(found)
	objects := make([]*unstructured.Unstructured, 0, len(found))
	for _, e := range found {
		object, err := e.decode()
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// answered records an answer of the API server in the current source of the kind: the
// watch may have moved during the request.
func (g *Group) answered(kind string, text []byte, record func(*watched[*encoded], *encoded)) (*encoded, error) {
	object, err := encode(text, g.opts.Index)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sources[kind]; s != nil {
		record(s.watched, object)
	}
	return object, nil
}

// request makes a request about a kind, and repeats it once if the API server now
// serves the kind in another version.
func (g *Group) request(ctx context.Context, kind string, ask func(*source) error) error {
	s, err := g.source(ctx, kind)
	if err != nil {
		return err
	}
	err = ask(s)
	if !IsPathUnknown(err) {
		return err
	}
	moved, moveErr := g.moved(ctx, s, err)
	if moveErr != nil {
		return moveErr
	}
	if err := ask(moved); !IsPathUnknown(err) {
		return err
	}
	return notYetServed(kind, moved.resource, err)
}

// moved returns the new source of a kind after the API server has said that it does not
// know the resource of s.
func (g *Group) moved(ctx context.Context, s *source, err error) (*source, error) {
	if err := g.discovery.refresh(ctx); err != nil {
		return nil, err
	}
	moved, sourceErr := g.source(ctx, s.kind)
	if sourceErr != nil {
		return nil, sourceErr
	}
	if moved.resource == s.resource {
		return nil, notYetServed(s.kind, s.resource, err)
	}
	return moved, nil
}

// notYetServed is an error for which apierrors.IsNotFound is not true: nothing is
// known about the object.
func notYetServed(kind string, resource schema.GroupVersionResource, err error) error {
	return fmt.Errorf("kind %s: the API server lists it in %s but does not know it there (is its CRD being changed?): %s",
		kind, resource.GroupVersion(), err.Error())
}

// source returns the source of a kind. The first call that can starts its watch.
func (g *Group) source(ctx context.Context, kind string) (*source, error) {
	return g.sourceAs(ctx, kind, true)
}

// sourceAs is source; again says whether to ask the cluster again about a kind that was
// not served.
func (g *Group) sourceAs(ctx context.Context, kind string, again bool) (*source, error) {
	if s := g.known(kind); s != nil {
		return s, nil
	}
	if !slices.Contains(g.opts.Kinds, kind) {
		return nil, fmt.Errorf("kind %q is none of those that are read of %s: %s", kind, g.opts.Group, strings.Join(g.opts.Kinds, ", "))
	}
	if _, err := g.discovery.find(ctx, kind, again); err != nil {
		return nil, err
	}
	g.background.Do(func() { go g.discover() })
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sources[kind]; s != nil {
		return s, nil
	}
	// Look this up under the lock that follow takes: then a later discovery moves this
	// source.
	resource, err := g.discovery.lookup(kind)
	if err != nil {
		return nil, err
	}
	return g.start(kind, resource)
}

// start makes the source of a kind and starts its watch; g.mu is held.
func (g *Group) start(kind string, resource schema.GroupVersionResource) (*source, error) {
	client, err := g.client.connection()
	if err != nil {
		return nil, err
	}
	s := &source{client: client, kind: kind, resource: resource, apiVersion: resource.GroupVersion().String()}
	reader := g.reader(client, resource, g.opts.Namespace)
	var changed func(namespace, name string)
	if g.opts.Changed != nil {
		changed = func(namespace, name string) { g.opts.Changed(kind, namespace, name) }
	}
	s.watched, err = newWatched(&encoded{}, watchOptions{
		resource:  resource.GroupResource(),
		namespace: g.opts.Namespace,
		list: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			list, err := reader.list(ctx, Selection{})
			g.lost(s, err)
			return list, err
		},
		watch: reader.watch,
		indexers: cache.Indexers{
			indexByNamespace: cache.MetaNamespaceIndexFunc,
			indexByKey: func(object any) ([]string, error) {
				if e, ok := object.(*encoded); ok {
					return e.keys, nil
				}
				return nil, nil
			},
		},
		changed:      changed,
		withoutWatch: g.opts.WithoutWatch,
		logger:       g.opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	ended := sync.OnceFunc(func() { close(stop) })
	s.end = ended
	go func() {
		select {
		case <-g.stop:
			ended()
		case <-stop:
		}
	}()
	go s.run(stop)
	g.sources[kind] = s
	return s, nil
}

func (g *Group) reader(client rest.Interface, resource schema.GroupVersionResource, namespace string) reader[*encoded] {
	return reader[*encoded]{client: client, resource: resource, namespace: namespace, keep: func(object []byte) (*encoded, error) { return encode(object, g.opts.Index) }}
}

// lost marks a watch as not current when the API server does not know its resource any
// more, and asks what it serves instead.
func (g *Group) lost(s *source, err error) {
	if !IsPathUnknown(err) {
		return
	}
	s.watching.Store(false)
	go func() { _ = g.discovery.refresh(context.Background()) }()
}

// follow moves the watches to the versions that are served now.
func (g *Group) follow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for kind, s := range g.sources {
		resource, err := g.discovery.lookup(kind)
		switch {
		case isNotServed(err):
			g.opts.Logger.Warn("a kind is no longer served by this cluster", "kind", kind, "was", s.resource.String())
			s.end()
			delete(g.sources, kind)
		case err != nil || resource == s.resource:
		default:
			g.opts.Logger.Info("a kind is served in another version now", "kind", kind, "was", s.resource.String(), "is", resource.String())
			s.end()
			if _, err := g.start(kind, resource); err != nil {
				delete(g.sources, kind)
			}
		}
	}
}

// discover asks again from time to time what the cluster serves.
func (g *Group) discover() {
	ticker := time.NewTicker(g.every)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-g.stop:
			return
		case <-ticker.C:
		}
		err := g.discovery.ask(context.Background())
		if err != nil && !failing {
			g.opts.Logger.Warn("versions stay as they were", "error", err)
		}
		failing = err != nil
	}
}
