package trafficrouter

import (
	"context"
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Object is a pointer to an object that a router writes.
type Object interface {
	comparable
	metav1.Object
	runtime.Object
}

// Ref names an object.
type Ref struct {
	Kind string
	types.NamespacedName
}

// String names the object for people: "HTTPRoute demo/app".
func (r Ref) String() string { return r.Kind + " " + r.NamespacedName.String() }

// Backend is what one router knows of its objects T. S are the settings that a Rollout's
// configuration has for one object. No method but Verify waits for anything other than a
// request, and none writes.
type Backend[T Object, S any] interface {
	// Configure returns which objects a Rollout means. It makes no request. An error says
	// what to correct in the Rollout.
	Configure(ro *v1alpha1.Rollout) (Config[S], error)

	// Decide returns what an object should be. It changes neither the object nor the plan,
	// and gives the same for the same. A *ForeignError says that another Rollout has the
	// object, or the part of it that the plan needs.
	Decide(ctx context.Context, p *Plan, t Target[T, S]) (Decision[T, S], error)

	// Release returns what an object should be without what an owner has on it, which needs
	// no configuration. ro is the owner's Rollout, nil if it does not exist.
	Release(ctx context.Context, object T, owner Owner, ro *v1alpha1.Rollout) (Decision[T, S], error)

	// Owners returns the Rollouts that have something on an object.
	Owners(object T) []Owner

	// InPlace returns the weight that an object gives the canary of a Rollout now. ok is
	// false if the object has nothing of the Rollout.
	InPlace(object T, ro *v1alpha1.Rollout) (canary int32, ok bool)

	// Takes returns the targets that take the header or mirror route of a call, or an error
	// that says what to do if none does.
	Takes(targets []Target[T, S], call RouteCall) ([]Target[T, S], error)

	// Verify returns why the data plane does not serve the targets as the plan asks. All of
	// them are as decided. What it says by Plan.Warn is asked again at the next call.
	Verify(ctx context.Context, p *Plan, targets []Target[T, S]) error

	// ChangedBy returns who has changed an object that is to be put back, from its
	// managedFields. wanted is nil if the object cannot be what it should be.
	ChangedBy(now, wanted T) Change

	// Missing returns the error for objects that a Rollout means and that are not there.
	Missing(q Query, err error) error
}

// Config is what a Rollout's configuration says to a router.
type Config[S any] struct {
	// Objects are the objects that the Rollout means.
	Objects []Selected[S]
	// Warnings are what the Rollout's owner should know of the configuration.
	Warnings []string
	// Unsupported is a step of the Rollout that the router cannot carry out: an error before
	// the canary has traffic, a warning after that.
	Unsupported error
}

// Selected is one object by its name, or all objects of a namespace by their labels.
type Selected[S any] struct {
	Query
	Settings S
}

// means tells whether a configuration names or selects an object.
func (c Config[S]) means(ref Ref, has map[string]string) bool {
	return slices.ContainsFunc(c.Objects, func(s Selected[S]) bool {
		return s.Kind == ref.Kind && s.Namespace == ref.Namespace &&
			(s.Name == ref.Name || s.Name == "" && s.Labels != nil && s.Labels.Matches(labels.Set(has)))
	})
}

// Target is an object that a call is about, as it is now. Settings are the zero value for
// one that the Rollout does not name, or whose configuration cannot be read.
type Target[T Object, S any] struct {
	Ref
	Object   T
	Settings S
}

// Decision is what an object should be.
type Decision[T Object, S any] struct {
	// Object is a copy of the object as it should be, and Changed tells whether that differs
	// from the object as it is.
	Object  T
	Changed bool
	// Again are the settings with which Decide, without the plan's RouteCalls, gives the same
	// again whatever another writer has done to the object: for self-healing.
	Again S
	// Warnings are what the Rollout's owner should know, a sentence each.
	Warnings []string
	// From and To say, for the log and for Events, what the object gives whom and what it is
	// to give. The weights are said where they are empty.
	From, To string
}

// Owner is a Rollout that has something on an object, and the registered name of the plugin
// that has written it; empty where objects do not say.
type Owner struct {
	Rollout types.NamespacedName
	Plugin  string
}

// ForeignError says that another Rollout has an object, or the part of it that a plan needs.
// If that Rollout is gone, or does not use the object any more, the frame releases it and
// decides again.
type ForeignError struct {
	Owner Owner
	Err   error
	// Unread is why that Rollout could not be read, which the frame sets: assume then that it
	// still owns the object.
	Unread error
}

func (e *ForeignError) Error() string {
	if e.Unread != nil {
		return fmt.Sprintf("%v (whether that Rollout still uses it is not known: %v)", e.Err, e.Unread)
	}
	return e.Err.Error()
}

func (e *ForeignError) Unwrap() []error { return []error{e.Err, e.Unread} }

// Change is a change of an object by another writer.
type Change struct {
	// Manager is the field manager, empty if it is not known.
	Manager string
	// Text says who has changed what, as the beginning of a sentence: "field manager kubectl
	// has changed HTTPRoute demo/app".
	Text string
	// Instance is true if another instance of this plugin has made the change: then it stays.
	Instance bool
}
