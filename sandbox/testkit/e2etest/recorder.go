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
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// Recorder watches one HTTPScaledObject and keeps every state it was ever in,
// so that a test can judge the whole of a canary and not only the moments at
// which it happened to look.
type Recorder struct {
	t    testing.TB
	n    *Namespace
	name string
	// audit is the path of the API server's audit log, and begun the size that it had
	// when the record began.
	audit string
	begun int64

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
	r := &Recorder{t: n.t, n: n, name: name, changed: make(chan struct{})}
	first := r.begin()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(ctx, first.GetResourceVersion())
	}()
	n.t.Cleanup(func() {
		cancel()
		<-ended
		if n.t.Failed() {
			n.t.Logf("HTTPScaledObject %s has been through:\n%s", name, r)
		}
	})
	return r
}

// begin sets where the record begins, in the audit log and in the object's states,
// and returns the first state. It waits for a moment at which no write of the object
// is under way.
func (r *Recorder) begin() *unstructured.Unstructured {
	r.t.Helper()
	var err error
	if r.audit, err = auditLog(); err != nil {
		r.t.Fatal(err)
	}
	Eventually(r.t, Patience, fmt.Sprintf("a moment at which nobody writes HTTPScaledObject %s", r.name), func(ctx context.Context) error {
		before, end, err := readAudit(r.audit, r.n.Name, r.name, 0)
		if err != nil {
			return err
		}
		first, err := r.n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(r.n.Name).Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		since, _, err := readAudit(r.audit, r.n.Name, r.name, end)
		if err != nil {
			return err
		}
		if len(since) > 0 {
			return fmt.Errorf("%s", since[0])
		}
		if i := slices.IndexFunc(before, func(w write) bool { return w.underWay(time.Now()) }); i >= 0 {
			return fmt.Errorf("%s", before[i])
		}
		r.begun, r.states = end, []*unstructured.Unstructured{first}
		return nil
	})
	return r.states[0]
}

// run follows the object from a resource version on. A watch that breaks off,
// as when the API server restarts, goes on where it was.
func (r *Recorder) run(ctx context.Context, version string) {
	client := r.n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(r.n.Name)
	selector := fields.OneTermEqualSelector("metadata.name", r.name).String()
	for ctx.Err() == nil {
		w, err := client.Watch(ctx, metav1.ListOptions{
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
			if list, err := client.List(ctx, metav1.ListOptions{FieldSelector: selector}); err == nil {
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

// sync waits until the record holds the object's present state.
func (r *Recorder) sync() []*unstructured.Unstructured {
	r.t.Helper()
	version := r.n.HTTPScaledObject(r.name).GetResourceVersion()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		states, changed, gaps, deletions := slices.Clone(r.states), r.changed, r.gaps, r.deletions
		r.mu.Unlock()
		if gaps > 0 || deletions > 0 {
			r.t.Fatalf("the record of HTTPScaledObject %s is not whole: %d gaps in the watch, %d deletions", r.name, gaps, deletions)
		}
		if slices.ContainsFunc(states, func(s *unstructured.Unstructured) bool { return s.GetResourceVersion() == version }) {
			return states
		}
		select {
		case <-changed:
		case <-deadline.C:
			r.t.Fatalf("the watch of HTTPScaledObject %s does not reach its present version %s", r.name, version)
		}
	}
}

// Splits returns the splits the object has carried until now, in order, each
// change once.
func (r *Recorder) Splits() []Split {
	r.t.Helper()
	return distinct(r.sync())
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
		r.t.Errorf("splits of HTTPScaledObject %s from first to last (-want +got):\n%s", r.name, diff)
	}
}

// Annotation returns the values that one annotation has had until now, in
// order: Absent where it was not there.
func (r *Recorder) Annotation(key string) []string {
	r.t.Helper()
	var values []string
	for _, state := range r.sync() {
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
	states := r.sync()
	i := len(states) - 1
	for i > 0 && splitOf(states[i-1]) == splitOf(states[i]) {
		i--
	}
	revision, err := strconv.ParseUint(states[i].GetResourceVersion(), 10, 64)
	if err != nil {
		r.t.Fatalf("resource version of HTTPScaledObject %s: %v", r.name, err)
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
// requests (RequireWrites).
func (r *Recorder) RequireNothingElse() {
	r.t.Helper()
	states := r.sync()
	for i, state := range states[1:] {
		if diff := cmp.Diff(withoutSplit(states[0]), withoutSplit(state)); diff != "" {
			r.t.Errorf("HTTPScaledObject %s has changed in more than its split (-first +later):\n%s", r.name, diff)
		}
		if splitOf(state) == splitOf(states[i]) {
			r.t.Errorf("HTTPScaledObject %s was written without a change of its split: %s", r.name, splitOf(state))
		}
	}
	r.RequireWrites()
}

// RequireWrites fails the test unless the plugin has sent exactly one request for
// each of its changes since the record began. Each write of another client must have
// changed the object.
func (r *Recorder) RequireWrites() {
	r.t.Helper()
	var writes []write
	changes := 0
	// The states and the requests are those of one moment if no request came between
	// the two reads of the log.
	Eventually(r.t, Patience, fmt.Sprintf("a moment at which nobody writes HTTPScaledObject %s", r.name), func(context.Context) error {
		before, end, err := readAudit(r.audit, r.n.Name, r.name, r.begun)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(before, func(w write) bool { return w.underWay(time.Now()) }); i >= 0 {
			return fmt.Errorf("%s", before[i])
		}
		changes = len(r.sync()) - 1
		since, _, err := readAudit(r.audit, r.n.Name, r.name, end)
		if err == nil && len(since) > 0 {
			err = fmt.Errorf("%s", since[0])
		}
		writes = before
		return err
	})
	if err := checkWrites(writes, changes); err != nil {
		r.t.Errorf("HTTPScaledObject %s: %v", r.name, err)
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
