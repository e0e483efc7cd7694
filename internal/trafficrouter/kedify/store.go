package kedify

import (
	"cmp"
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// store reads and writes the metadata of HTTPScaledObjects.
type store struct{ *kube.Metadata }

var _ trafficrouter.Store[*metav1.PartialObjectMetadata] = store{}

func queryFor(namespace, name string) trafficrouter.Query {
	return trafficrouter.Query{Kind: kind, Namespace: namespace, Name: name}
}

// own returns a copy of an object that has its kind; nil stays nil.
func own(object *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	object = object.DeepCopy()
	if object != nil {
		object.SetGroupVersionKind(httpv1alpha1.GroupVersion.WithKind(kind))
	}
	return object
}

// Find returns the object of a query.
func (s store) Find(ctx context.Context, q trafficrouter.Query) ([]*metav1.PartialObjectMetadata, error) {
	object, err := s.Get(ctx, q.Namespace, q.Name)
	if err != nil {
		return nil, err
	}
	return []*metav1.PartialObjectMetadata{own(object)}, nil
}

// Having returns the objects that name a Rollout as the owner of their split. They are of
// the Rollout's namespace.
func (s store) Having(ctx context.Context, q trafficrouter.Query, wait time.Duration) ([]*metav1.PartialObjectMetadata, bool, error) {
	objects, ok, err := s.having(ctx, q, wait)
	for i, object := range objects {
		objects[i] = own(object)
	}
	return objects, ok, err
}

// having is Having with the objects as they are in the store.
func (s store) having(ctx context.Context, q trafficrouter.Query, wait time.Duration) ([]*metav1.PartialObjectMetadata, bool, error) {
	objects, ok, err := s.WithAnnotation(ctx, q.Rollout.Namespace, q.Rollout.Name, wait)
	slices.SortFunc(objects, func(a, b *metav1.PartialObjectMetadata) int { return cmp.Compare(a.Name, b.Name) })
	return objects, ok, err
}

// States returns the states of what Find or Having would return.
func (s store) States(q trafficrouter.Query) (states []kube.State, ok bool) {
	var objects []*metav1.PartialObjectMetadata
	if q.Name == "" {
		var err error
		objects, ok, err = s.having(context.Background(), q, 0)
		ok = ok && err == nil
	} else if object, watched := s.Metadata.Watched(q.Namespace, q.Name); watched {
		ok = true
		if object != nil {
			objects = append(objects, object)
		}
	}
	for _, object := range objects {
		states = append(states, s.StateOf(object))
	}
	return states, ok
}

// StateOf returns the state in which an object was read.
func (s store) StateOf(object *metav1.PartialObjectMetadata) kube.State {
	return kube.StateOfMetadata(object)
}

// Watched returns an object from the watch.
func (s store) Watched(ref trafficrouter.Ref) (*metav1.PartialObjectMetadata, bool) {
	object, ok := s.Metadata.Watched(ref.Namespace, ref.Name)
	return own(object), ok
}

// Read asks the API server for an object.
func (s store) Read(ctx context.Context, ref trafficrouter.Ref) (*metav1.PartialObjectMetadata, error) {
	object, err := s.Metadata.Read(ctx, ref.Namespace, ref.Name)
	return own(object), err
}

// Write gives an object the two annotations of desired.
func (s store) Write(ctx context.Context, current, desired *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	want := presentIn(desired.Annotations)
	written, err := s.Annotate(ctx, current, map[string]*string{weightedbackends.Annotation: want.split, weightedbackends.OwnerAnnotation: want.owner})
	return own(written), err
}

// Marks returns a mark for each split with an owner that the watch shows.
func (s store) Marks(context.Context) []trafficrouter.Mark {
	objects, _ := s.Annotated()
	var marks []trafficrouter.Mark
	for _, object := range objects {
		if now := presentIn(object.Annotations); now.split != nil && now.owner != nil {
			marks = append(marks, trafficrouter.Mark{
				Object:  queryFor(object.Namespace, object.Name).Ref(),
				Rollout: types.NamespacedName{Namespace: object.Namespace, Name: *now.owner},
			})
		}
	}
	return marks
}
