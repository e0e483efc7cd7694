package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	// pageSize is how many objects a list asks for at a time.
	pageSize = 500
	// leastWait and mostWait bound the time between two requests of a source
	// while the API server does not answer, or refuses.
	leastWait = 200 * time.Millisecond
	mostWait  = 3 * time.Second
)

// source lists and watches one resource.
type source struct {
	kind      kind
	resource  schema.GroupVersionResource
	namespace string
	// list reads one page, and calls each for every object on it.
	list func(ctx context.Context, options metav1.ListOptions, each func(runtime.Object)) (metav1.ListMeta, error)
	// watch starts a watch, as the Watch method of a client does.
	watch func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// read turns an object into what the feed receives. An object for which it returns
	// nil is skipped.
	read func(runtime.Object) any

	changes chan<- change
	contact *contact
	pass    uint64
	failed  int // requests in a row that failed
}

// run sends the feed all objects, and then each change, until ctx ends.
func (s *source) run(ctx context.Context, changes chan<- change, contact *contact) {
	s.changes, s.contact = changes, contact
	contact.begin(s)
	reflector := cache.NewReflectorWithOptions(
		&cache.ListWatch{ListWithContextFunc: s.listAll, WatchFuncWithContext: s.watchFrom},
		nil, &store{ctx: ctx, source: s},
		cache.ReflectorOptions{Name: s.resource.Resource, TypeDescription: s.resource.GroupResource().String()})
	for ctx.Err() == nil {
		// The reflector's own loop would wait up to a minute.
		_ = reflector.ListAndWatchWithContext(ctx) // the error has been reported to contact
		s.pause(ctx)
	}
}

// listAll passes on all objects page by page, so that only one page is in memory, and
// returns only the resourceVersion to the reflector.
func (s *source) listAll(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	s.pass++
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := s.list(ctx, options, func(o runtime.Object) { s.tell(ctx, o, false) })
		s.answered("list", err)
		if err != nil {
			if s.contact.refuses(s) {
				s.send(ctx, change{kind: s.kind, pass: s.pass, refused: true})
			}
			return nil, err
		}
		if page.Continue == "" {
			return &metainternalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: page.ResourceVersion}}, nil
		}
		options.Continue = page.Continue
	}
}

// If the connection is cut before there is an answer, client-go returns an empty watch
// that has ended, and no error. The reflector would list again because of that.
var (
	noWatch = reflect.TypeOf(watch.NewEmptyWatch())
	errCut  = errors.New("the connection was cut before there was an answer")
)

// watchFrom starts a watch. It retries until the API server grants it or a new list is
// needed: the reflector's own backoff grows longer.
func (s *source) watchFrom(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	for {
		w, err := s.watch(ctx, options)
		if err == nil && reflect.TypeOf(w) == noWatch {
			err = errCut
		}
		s.answered("watch", err)
		if err == nil || ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
			return w, err
		}
		s.pause(ctx)
	}
}

func (s *source) answered(verb string, err error) {
	if err == nil {
		s.failed = 0
		s.contact.succeeded(s, verb)
		return
	}
	s.failed++
	if !apierrors.IsGone(err) && !apierrors.IsResourceExpired(err) {
		s.contact.failed(s, verb, err)
	}
}

// pause waits before the next request: a backoff that grows with the failures in a row.
func (s *source) pause(ctx context.Context) {
	if ctx.Err() != nil {
		return // failed may still be written by a list that the reflector no longer waits for
	}
	most := min(leastWait<<min(s.failed, 10), mostWait)
	select {
	case <-ctx.Done():
	case <-time.After(most/2 + rand.N(most/2)):
	}
}

// tell sends the feed an object, or the name of one that was deleted.
func (s *source) tell(ctx context.Context, o runtime.Object, gone bool) {
	m, err := meta.Accessor(o)
	if err != nil {
		return // everything that is listed and watched has metadata
	}
	c := change{kind: s.kind, pass: s.pass, name: types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}}
	if !gone {
		if c.object = s.read(o); c.object == nil {
			return
		}
	}
	s.send(ctx, c)
}

func (s *source) send(ctx context.Context, c change) {
	select {
	case s.changes <- c:
	case <-ctx.Done():
	}
}

// store is what the reflector writes to: it passes everything on and keeps
// nothing.
type store struct {
	ctx    context.Context
	source *source
}

func (s *store) Add(o any) error    { return s.Update(o) }
func (s *store) Update(o any) error { s.source.tell(s.ctx, o.(runtime.Object), false); return nil }
func (s *store) Delete(o any) error { s.source.tell(s.ctx, o.(runtime.Object), true); return nil }
func (s *store) Resync() error      { return nil }

// Replace is called at the end of a list, whose objects have been sent already.
func (s *store) Replace([]any, string) error {
	s.source.send(s.ctx, change{kind: s.source.kind, pass: s.source.pass, listed: true})
	return nil
}
