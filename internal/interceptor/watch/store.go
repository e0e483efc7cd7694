package watch

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// store is what the reflector writes to: it passes everything on and keeps nothing. It is a
// cache.TransformingStore.
type store struct {
	ctx    context.Context
	source *source
}

func (s *store) Add(o any) error    { return s.Update(o) }
func (s *store) Update(o any) error { s.source.tell(s.ctx, o.(runtime.Object), false); return nil }
func (s *store) Delete(o any) error { s.source.tell(s.ctx, o.(runtime.Object), true); return nil }
func (s *store) Resync() error      { return nil }

// Replace is called when all objects have come. Those of a list have been sent already, and
// objects is empty. With client-go's WatchListClient a watch begins with all objects; the
// reflector keeps them until the last has come, and passes them on here.
func (s *store) Replace(objects []any, _ string) error {
	initial := s.source.initial
	if initial != nil {
		s.source.initial = nil
		s.source.pass++
	}
	for i, o := range objects {
		s.source.tell(s.ctx, o.(runtime.Object), false)
		objects[i] = nil // the feed has taken what it needs
	}
	s.source.send(s.ctx, change{kind: s.source.kind, pass: s.source.pass, listed: true})
	if initial != nil {
		s.source.granted(s.ctx)
		if s.source.renew > 0 {
			// The reflector takes a watch for broken that ends within a second.
			time.AfterFunc(s.source.renew+leastWait, initial.Stop)
		}
	}
	return nil
}

// Transformer returns what the reflector keeps of an object until the last has come.
func (s *store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) { return strip(s.source.read(o.(runtime.Object))), nil }
}

// strip removes most of what no table is made of from an object.
func strip(o runtime.Object) runtime.Object {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
		delete(m.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	if s, ok := o.(*discoveryv1.EndpointSlice); ok {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			*e = discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions}
		}
	}
	return o
}
