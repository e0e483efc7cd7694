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
	// mostInitial is how long a watch may take to send all objects, before they are listed.
	mostInitial = time.Minute
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
	// read turns an object into what the feed receives, which it returns unchanged.
	read func(runtime.Object) runtime.Object

	// renew is how long a watch lasts; 0 is for as long as the reflector asks for.
	renew time.Duration
	// initial is a watch that begins with all objects, until the last of them has come.
	initial watch.Interface
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
	s.initial = nil
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := s.list(ctx, options, func(o runtime.Object) { s.tell(ctx, o, false) })
		if err := s.answered(ctx, "list", nil, err); err != nil {
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
	errCut  = errors.New("the connection was cut, or there was no answer in time")
)

// errNotAll lets the reflector list. It would repeat a watch that was refused for some other
// reasons, and wait up to half a minute before.
var errNotAll = errors.New("no watch has sent all objects")

// watchFrom starts a watch. It retries until the API server grants it or a new list is
// needed: the reflector's own backoff grows longer.
func (s *source) watchFrom(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil {
		return s.watchAll(ctx, options)
	}
	for {
		w, err := s.renewed(ctx, options)
		err = s.answered(ctx, "watch", w, err)
		if err == nil {
			s.granted(ctx)
		}
		if err == nil || ctx.Err() != nil || apierrors.IsNotFound(err) || tooOld(err) {
			return w, err
		}
		s.pause(ctx)
	}
}

// watchAll starts a watch that begins with all objects, as the reflector asks for with
// client-go's WatchListClient. An API server that has no such watches finds it invalid, or
// never tells that all objects have come.
func (s *source) watchAll(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if s.initial != nil { // it has ended too early
		s.initial = nil
		return nil, errNotAll
	}
	options.ResourceVersion = "" // the newest objects, as in a list
	w, err := s.watchFor(ctx, options, mostInitial)
	if apierrors.IsInvalid(err) || s.answered(ctx, "watch", w, err) != nil {
		return nil, errNotAll
	}
	s.initial = w
	return w, nil
}

// renewed starts a watch that ends after renew.
func (s *source) renewed(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if s.renew == 0 {
		return s.watch(ctx, options)
	}
	return s.watchFor(ctx, options, s.renew)
}

// watchFor starts a watch that ends after some seconds. The API server is to end it; if it has
// not done so after twice that time, it no longer hears us, and the request is given up.
func (s *source) watchFor(ctx context.Context, options metav1.ListOptions, long time.Duration) (watch.Interface, error) {
	seconds := int64(long.Seconds())
	options.TimeoutSeconds = &seconds
	ctx, cancel := context.WithTimeout(ctx, 2*long)
	w, err := s.watch(ctx, options)
	if err != nil {
		cancel()
		return nil, err
	}
	context.AfterFunc(ctx, cancel) // the watch outlives this call
	return w, nil
}

// granted tells the feed that the API server has granted a watch.
func (s *source) granted(ctx context.Context) {
	if s.kind < tableKinds {
		s.send(ctx, change{kind: s.kind, granted: time.Now()})
	}
}

// answered reports how a request has ended, and returns its error. w is nil for a list.
func (s *source) answered(ctx context.Context, verb string, w watch.Interface, err error) error {
	if err == nil && reflect.TypeOf(w) == noWatch {
		err = errCut
	}
	if err == nil {
		s.failed = 0
		s.contact.succeeded(s, verb)
		return nil
	}
	s.failed++
	if !tooOld(err) {
		s.contact.failed(s, verb, err)
	}
	if s.contact.refuses(s) {
		s.send(ctx, change{kind: s.kind, pass: s.pass, refused: true})
	}
	return err
}

// tooOld tells whether the API server no longer knows what came after the last list.
func tooOld(err error) bool { return apierrors.IsGone(err) || apierrors.IsResourceExpired(err) }

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
		c.object = s.read(o)
	}
	s.send(ctx, c)
}

func (s *source) send(ctx context.Context, c change) {
	select {
	case s.changes <- c:
	case <-ctx.Done():
	}
}
