package e2etest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// The annotations that the plugin writes. They are spelt out here, and not
// taken from the plugin: they are what its users rely on.
const (
	SplitAnnotation = "http.kedify.io/weighted-backends"
	OwnerAnnotation = "http.kedify.io/weighted-backends-rollout"
)

// Absent stands for the value of an annotation that is not there.
const Absent = "(absent)"

// Split is what an HTTPScaledObject says of its traffic: the text of both
// annotations, or Absent.
type Split struct {
	Text  string
	Owner string
}

// NoSplit is the Split of an HTTPScaledObject with neither annotation.
var NoSplit = Split{Text: Absent, Owner: Absent}

// String shows a split on one line.
func (s Split) String() string {
	return fmt.Sprintf("%q by %s", s.Text, s.Owner)
}

// Weight is one backend of a split.
type Weight struct {
	Service string
	Weight  int
}

// SplitText returns the text that the annotation has to have for the given
// backends.
func SplitText(backends ...Weight) string {
	var text strings.Builder
	for _, b := range backends {
		_, _ = fmt.Fprintf(&text, "- service: %s\n  weight: %d\n", b.Service, b.Weight)
	}
	return text.String()
}

// Split returns the split that the Rollout of an App sets at a weight of
// 0..100: what is left goes to the stable Service.
func (a App) Split(weight int) Split {
	a = a.complete()
	return Split{
		Text:  SplitText(Weight{a.Name + "-stable", 100 - weight}, Weight{a.Name + "-canary", weight}),
		Owner: a.Name,
	}
}

// HTTPScaledObject returns an HTTPScaledObject of the namespace.
func (n *Namespace) HTTPScaledObject(name string) *unstructured.Unstructured {
	n.t.Helper()
	object, err := n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(n.Name).Get(n.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		n.t.Fatalf("HTTPScaledObject %s/%s: %v", n.Name, name, err)
	}
	return object
}

// Split returns the present split of an HTTPScaledObject.
func (n *Namespace) Split(name string) Split {
	n.t.Helper()
	return splitOf(n.HTTPScaledObject(name))
}

func splitOf(object *unstructured.Unstructured) Split {
	s := NoSplit
	if value, ok := object.GetAnnotations()[SplitAnnotation]; ok {
		s.Text = value
	}
	if value, ok := object.GetAnnotations()[OwnerAnnotation]; ok {
		s.Owner = value
	}
	return s
}

// AwaitSplit waits until an HTTPScaledObject has exactly the wanted split.
func (n *Namespace) AwaitSplit(name string, want Split) {
	n.t.Helper()
	n.AwaitSplitWithin(Patience, name, want)
}

// AwaitSplitWithin is AwaitSplit with a time limit of the caller's.
func (n *Namespace) AwaitSplitWithin(within time.Duration, name string, want Split) {
	n.t.Helper()
	Eventually(n.t, within, "split of HTTPScaledObject "+name, func(ctx context.Context) error {
		object, err := n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return sameSplit(splitOf(object), want)
	})
}

// RequireSplit fails the test unless an HTTPScaledObject has exactly the wanted split
// now.
func (n *Namespace) RequireSplit(name string, want Split) {
	n.t.Helper()
	if err := sameSplit(n.Split(name), want); err != nil {
		n.t.Fatalf("HTTPScaledObject %s/%s: %v", n.Name, name, err)
	}
}

func sameSplit(got, want Split) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("split (-want +got):\n%s", diff)
	}
	return nil
}

// Annotate sets annotations of an HTTPScaledObject as another tool would; a
// nil value removes one.
func (n *Namespace) Annotate(name string, annotations map[string]*string) {
	n.t.Helper()
	if err := n.TryAnnotate(n.t.Context(), name, annotations); err != nil {
		n.t.Fatal(err)
	}
}

// TryAnnotate is Annotate for any goroutine: it returns the error.
func (n *Namespace) TryAnnotate(ctx context.Context, name string, annotations map[string]*string) error {
	patch, err := annotationPatch(annotations)
	if err != nil {
		return err
	}
	_, err = n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(n.Name).
		Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "another-tool"})
	if err != nil {
		return fmt.Errorf("annotating HTTPScaledObject %s/%s: %w", n.Name, name, err)
	}
	return nil
}
