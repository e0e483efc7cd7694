package e2etest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Namespace is a namespace of one test's own. Its methods fail that test, and
// are for the test's own goroutine unless they say otherwise.
type Namespace struct {
	*Cluster
	// Name is the namespace's name.
	Name string

	t testing.TB
}

// NewNamespace makes a namespace for the test and deletes it when the test ends. If
// the test has failed by then, its objects and logs are kept first (Keep), and with
// KEEP_SANDBOX=1 in the environment the namespace stays.
func NewNamespace(t testing.TB) *Namespace {
	t.Helper()
	return newNamespace(t, Connect(t), namespaceName(t.Name()))
}

// NewNamespaceOf is NewNamespace for a namespace of another cluster.
func NewNamespaceOf(t testing.TB, c *Cluster, name string) *Namespace {
	t.Helper()
	return newNamespace(t, c, name)
}

func newNamespace(t testing.TB, c *Cluster, name string) *Namespace {
	t.Helper()
	n := &Namespace{Cluster: c, Name: name, t: t}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	if _, err := n.Kube.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating namespace %s: %v", n.Name, err)
	}
	t.Cleanup(n.cleanUp)
	return n
}

// AdoptNamespace is NewNamespace for a namespace that the test's own commands make,
// and may delete. It is deleted when the test ends.
func AdoptNamespace(t testing.TB, name string) *Namespace {
	t.Helper()
	n := &Namespace{Cluster: Connect(t), Name: name, t: t}
	t.Cleanup(func() {
		n.cleanUp()
		if t.Failed() && os.Getenv("KEEP_SANDBOX") == "1" {
			return
		}
		err := Poll(context.Background(), Patience, func(ctx context.Context) error {
			_, err := n.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err == nil:
				return errors.New("it is there still")
			}
			return err
		})
		if err != nil {
			t.Errorf("waiting for the end of namespace %s: %v", name, err)
		}
	})
	return n
}

// cleanUp deletes the namespace, and before that keeps what is in it if the test has
// failed.
func (n *Namespace) cleanUp() {
	if n.t.Failed() {
		dir := filepath.Join(failedDir(n.t), n.name, n.Name)
		if err := n.Keep(dir); err != nil {
			n.t.Log(err)
		}
		n.t.Logf("objects and logs of namespace %s are in %s", n.Name, dir)
		if os.Getenv("KEEP_SANDBOX") == "1" {
			n.t.Logf("namespace %s is kept", n.Name)
			return
		}
	}
	// The test's own context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := n.Kube.CoreV1().Namespaces().Delete(ctx, n.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		n.t.Errorf("deleting namespace %s: %v", n.Name, err)
	}
}

// With returns the same namespace for a subtest.
func (n *Namespace) With(t testing.TB) *Namespace {
	clone := *n
	clone.t = t
	return &clone
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// namespaceName makes the name of a namespace from that of a test.
func namespaceName(test string) string {
	name := notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(test, "Test")), "-")
	if len(name) > 40 {
		name = name[:40]
	}
	return strings.Trim(name, "-") + "-" + rand.String(5)
}
