package trafficrouter

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// Query asks for objects of one kind: the one with a name, those of a namespace with labels,
// or those, of all namespaces that are watched, that have something of a Rollout.
type Query struct {
	Kind, Namespace, Name string
	Labels                labels.Selector
	Rollout               types.NamespacedName
}

// Ref is the object that a query names.
func (q Query) Ref() Ref {
	return Ref{q.Kind, types.NamespacedName{Namespace: q.Namespace, Name: q.Name}}
}

// String names the objects for people.
func (q Query) String() string {
	switch {
	case q.Name != "":
		return q.Ref().String()
	case q.Labels != nil:
		return fmt.Sprintf("%ss of namespace %s with labels %q", q.Kind, q.Namespace, q.Labels)
	}
	return fmt.Sprintf("%ss with something of Rollout %s", q.Kind, q.Rollout)
}

// Store reads and writes the objects of a router. Objects that it returns are the caller's
// own, with the apiVersion and kind of the object.
type Store[T Object] interface {
	// Find returns the objects of a query by name or labels: from the watch, without a
	// request, or by a plain read where there is no watch. One by name that is not there is
	// an error for which apierrors.IsNotFound is true; a kind that is not served a
	// *kube.NotServedError.
	Find(ctx context.Context, q Query) ([]T, error)
	// Having returns the objects of a query by Rollout from the watch, for whose first list
	// it waits at most as long as wait; without a watch ok is false.
	Having(ctx context.Context, q Query, wait time.Duration) (objects []T, ok bool, err error)
	// States returns the states of what Find or Having would return now, from the watch and
	// in the same order, without a request and without decoding an object. Without a watch ok
	// is false.
	States(q Query) (states []kube.State, ok bool)
	// StateOf returns the state in which an object was read.
	StateOf(object T) kube.State
	// Watched returns an object from the watch, nil if it does not exist. It makes no
	// request; without a watch ok is false.
	Watched(ref Ref) (object T, ok bool)
	// Read asks the API server for an object, with its managedFields.
	Read(ctx context.Context, ref Ref) (T, error)
	// Write turns current, as it was read, into desired, in one request. If the object has
	// changed since, the error is one for which apierrors.IsConflict is true. It returns the
	// object as written, which a Find that follows sees.
	Write(ctx context.Context, current, desired T) (T, error)
	// Marks returns, from the watches, which objects have something of which Rollouts.
	Marks(ctx context.Context) []Mark
	// Close ends the watches.
	Close()
}
