package e2etest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// Recorder watches one object and keeps every state it was ever in, so that a test can
// judge the whole of a canary and not only the moments at which it happened to look.
type Recorder struct {
	t      testing.TB
	n      *Namespace
	client dynamic.ResourceInterface
	// what names the object.
	what, name string
	// earlier is how often the object was written before the record began.
	earlier int

	mu        sync.Mutex
	states    []*unstructured.Unstructured
	deletions int
	gaps      int
	changed   chan struct{} // closed and replaced at each state
}

// Record starts to record an HTTPScaledObject, which must be there, until the
// test ends. Its state now is the first of the record.
func (n *Namespace) Record(name string) *Recorder {
	n.t.Helper()
	r := n.RecordOf(cluster.HTTPScaledObjectGVR, name)
	KeepOnFailure(n.t, "splits-of-"+name, func() (string, error) { return r.String(), nil })
	return r
}

// RecordOf is Record for an object of another kind that is in the audit log. It has no
// splits, but States.
func (n *Namespace) RecordOf(resource schema.GroupVersionResource, name string) *Recorder {
	n.t.Helper()
	r := &Recorder{
		t: n.t, n: n, client: n.Dynamic.Resource(resource).Namespace(n.Name), what: resource.Resource + " " + name, name: name,
		changed: make(chan struct{}),
	}
	r.earlier = len(n.writesUntil(name, func(ctx context.Context) error {
		first, err := r.client.Get(ctx, name, metav1.GetOptions{})
		r.states = []*unstructured.Unstructured{first}
		return err
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	version := r.states[0].GetResourceVersion()
	go func() {
		defer close(ended)
		r.run(ctx, version)
	}()
	n.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return r
}

// run follows the object from a resource version on. A watch that breaks off,
// as when the API server restarts, goes on where it was.
func (r *Recorder) run(ctx context.Context, version string) {
	selector := fields.OneTermEqualSelector("metadata.name", r.name).String()
	for ctx.Err() == nil {
		w, err := r.client.Watch(ctx, metav1.ListOptions{
			FieldSelector:   selector,
			ResourceVersion: version,
		})
		if err == nil {
			version, err = r.follow(ctx, w, version)
		}
		if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
			// The states in between are lost. Count a gap, and go on from the list's
			// version: the object's own may be as old as the one that has just been
			// refused.
			if list, err := r.client.List(ctx, metav1.ListOptions{FieldSelector: selector}); err == nil {
				version = list.GetResourceVersion()
				for i := range list.Items {
					r.add(&list.Items[i], true)
				}
			}
		}
		pause(ctx, pollInterval)
	}
}

func (r *Recorder) follow(ctx context.Context, w watch.Interface, version string) (string, error) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, ctx.Err()
		case event, ok := <-w.ResultChan():
			if !ok {
				return version, errors.New("the watch has ended")
			}
			if event.Type == watch.Error {
				return version, apierrors.FromObject(event.Object)
			}
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				return version, fmt.Errorf("the watch sent a %T", event.Object)
			}
			version = object.GetResourceVersion()
			if event.Type == watch.Deleted {
				r.mu.Lock()
				r.deletions++
				r.mu.Unlock()
				continue
			}
			r.add(object, false)
		}
	}
}

func (r *Recorder) add(object *unstructured.Unstructured, gap bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gap {
		r.gaps++
	}
	r.states = append(r.states, object)
	close(r.changed)
	r.changed = make(chan struct{})
}

// States waits until the record holds the object's present state, and returns all states.
func (r *Recorder) States() []*unstructured.Unstructured {
	r.t.Helper()
	now, err := r.client.Get(r.t.Context(), r.name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatalf("%s: %v", r.what, err)
	}
	version := now.GetResourceVersion()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		states, changed, gaps, deletions := slices.Clone(r.states), r.changed, r.gaps, r.deletions
		r.mu.Unlock()
		if gaps > 0 || deletions > 0 {
			r.t.Fatalf("the record of %s is not whole: %d gaps in the watch, %d deletions", r.what, gaps, deletions)
		}
		if slices.ContainsFunc(states, func(s *unstructured.Unstructured) bool { return s.GetResourceVersion() == version }) {
			return states
		}
		select {
		case <-changed:
		case <-deadline.C:
			r.t.Fatalf("the watch of %s does not reach its present version %s", r.what, version)
		}
	}
}

// Splits returns the splits the object has carried until now, in order, each
// change once.
func (r *Recorder) Splits() []Split {
	r.t.Helper()
	return distinct(r.States())
}

func distinct(states []*unstructured.Unstructured) []Split {
	var splits []Split
	for _, state := range states {
		splits = append(splits, splitOf(state))
	}
	return slices.Compact(splits)
}

// RequireSplits fails the test unless the object has carried exactly these
// splits until now, in this order.
func (r *Recorder) RequireSplits(want ...Split) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.Splits()); diff != "" {
		r.t.Errorf("splits of %s from first to last (-want +got):\n%s", r.what, diff)
	}
}

// Annotation returns the values that one annotation has had until now, in
// order: Absent where it was not there.
func (r *Recorder) Annotation(key string) []string {
	r.t.Helper()
	var values []string
	for _, state := range r.States() {
		value, ok := state.GetAnnotations()[key]
		if !ok {
			value = Absent
		}
		values = append(values, value)
	}
	return values
}

// LastChange returns the revision at which the split last changed.
func (r *Recorder) LastChange() uint64 {
	r.t.Helper()
	states := r.States()
	i := len(states) - 1
	for i > 0 && splitOf(states[i-1]) == splitOf(states[i]) {
		i--
	}
	revision, err := strconv.ParseUint(states[i].GetResourceVersion(), 10, 64)
	if err != nil {
		r.t.Fatalf("resource version of %s: %v", r.what, err)
	}
	return revision
}

// Require fails the test unless the object has carried exactly these splits
// until now, in this order, and nothing else of it has changed but the two
// annotations.
func (r *Recorder) Require(want ...Split) {
	r.t.Helper()
	r.RequireSplits(want...)
	r.RequireNothingElse()
}

// RequireNothingElse fails the test if anything of the object but the two annotations
// has changed since the record began, or if the plugin has sent a write that changed
// nothing. A write that changed the object without changing its split shows in the
// object's states, and one that the API server has suppressed in the number of
// requests (requireWrites).
func (r *Recorder) RequireNothingElse() {
	r.t.Helper()
	states := r.States()
	for i, state := range states[1:] {
		if diff := cmp.Diff(withoutSplit(states[0]), withoutSplit(state)); diff != "" {
			r.t.Errorf("%s has changed in more than its split (-first +later):\n%s", r.what, diff)
		}
		if splitOf(state) == splitOf(states[i]) {
			r.t.Errorf("%s was written without a change of its split: %s", r.what, splitOf(state))
		}
	}
	r.requireWrites()
}

// requireWrites fails the test unless the plugin has sent exactly one request for
// each of its changes since the record began. Each write of another client must have
// changed the object.
func (r *Recorder) requireWrites() {
	r.t.Helper()
	changes := 0
	writes := r.n.writesUntil(r.name, func(context.Context) error {
		changes = len(r.States()) - 1
		return nil
	})[r.earlier:]
	if err := checkWrites(writes, changes); err != nil {
		r.t.Errorf("%s: %v", r.what, err)
	}
}

// withoutSplit returns an object without the split, and without what the API server
// changes at each write.
func withoutSplit(object *unstructured.Unstructured) map[string]any {
	o := object.DeepCopy()
	annotations := o.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return key == SplitAnnotation || key == OwnerAnnotation })
	o.SetAnnotations(annotations)
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	return o.Object
}

// String lists the splits recorded so far, a line each.
func (r *Recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text string
	for _, split := range distinct(r.states) {
		text += "  " + split.String() + "\n"
	}
	return text
}
