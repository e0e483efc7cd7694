package trafficrouter

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
)

// world is a remover with what it looks at and what it is asked.
type world struct {
	*remover
	server *apiservertest.Server
	marks  []Mark
	log    *plugintest.Output
	// owns and problem are the answer to each question.
	owns    bool
	problem error
	asked   chan string
}

func newWorld(t *testing.T, namespace string, marks ...Mark) *world {
	t.Helper()
	w := &world{server: apiservertest.New(t), marks: marks, log: &plugintest.Output{}, asked: make(chan string, 100)}
	logger := hclog.New(&hclog.LoggerOptions{Output: w.log})
	rollouts := kube.NewMetadata(w.server.Config, kube.MetadataOptions{Resource: v1alpha1.RolloutGVR, Namespace: namespace, Logger: logger})
	t.Cleanup(rollouts.Close)
	w.remover = newRemover(rollouts, func(context.Context) []Mark { return w.marks }, func(_ context.Context, object Ref, rollout types.NamespacedName) (bool, error) {
		w.asked <- object.String() + " of " + rollout.String()
		return w.owns, w.problem
	}, logger)
	plugintest.Eventually(t, "the watch of Rollouts is current", func() bool { _, ok := rollouts.Watched("demo", "none"); return ok })
	return w
}

// put has the server have a Rollout, and waits until the watch shows it.
func (w *world) put(t *testing.T, generation int64) *v1alpha1.Rollout {
	t.Helper()
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "u-1", Generation: generation}}
	w.server.PutObject("rollouts", ro)
	plugintest.Eventually(t, "the watch shows the Rollout", func() bool {
		seen, _ := w.rollouts.Watched("demo", "app")
		return seen != nil && seen.Generation == generation
	})
	return ro
}

// look returns what the router is asked in one look.
func (w *world) look(t *testing.T) (asked []string) {
	t.Helper()
	w.Look(t.Context())
	for len(w.asked) > 0 {
		asked = append(asked, <-w.asked)
	}
	return asked
}

func (w *world) require(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.look(t)); diff != "" {
		t.Errorf("%s, the router is asked about (-want +got):\n%s", when, diff)
	}
}

var (
	marked = Ref{"Object", types.NamespacedName{Namespace: "infra", Name: "object"}}
	ours   = Mark{Object: marked, Rollout: types.NamespacedName{Namespace: "demo", Name: "app"}}
)

const question = "Object infra/object of demo/app"

// A mark is asked about until its Rollout is seen to own it, and then when the Rollout's
// spec, or what else it depends on, is another.
func TestAMarkIsAskedAboutOnce(t *testing.T) {
	w := newWorld(t, "", ours)
	w.put(t, 1)
	w.owns = true
	w.require(t, "at first", question)
	w.require(t, "once it is known")
	w.put(t, 2)
	w.require(t, "with another spec", question)
	w.require(t, "once that is known")
	w.marks[0].Labels = "other labels"
	w.require(t, "with other labels", question)
	w.server.Delete("rollouts", "demo", "app")
	plugintest.Eventually(t, "it is asked about once the Rollout is deleted", func() bool { return len(w.look(t)) == 1 })
	w.require(t, "as long as the router finds that the Rollout is there", question)
}

// A call has shown that its Rollout owns a mark.
func TestWhatACallHasShownIsNotAskedAbout(t *testing.T) {
	w := newWorld(t, "", ours)
	ro := w.put(t, 3)
	w.Owned(ours, ro)
	w.require(t, "after the call")
	w.marks = nil
	w.require(t, "once it is off")
	w.marks = []Mark{ours}
	w.require(t, "when it is on again", question)
}

// Of Rollouts that the watch is not about nothing is known.
func TestARolloutOutsideTheWatchIsNotJudged(t *testing.T) {
	w := newWorld(t, "demo", Mark{Object: marked, Rollout: types.NamespacedName{Namespace: "other", Name: "app"}}, ours)
	w.require(t, "with a watch of namespace demo", question)
}

func TestAProblemIsLoggedOnce(t *testing.T) {
	w := newWorld(t, "", ours)
	w.problem = errors.New("the Rollout cannot be read")
	for range 3 {
		w.require(t, "with a problem", question)
	}
	const line = "it is not known whether what is on an object is still its Rollout's"
	if got := strings.Count(w.log.String(), line); got != 1 {
		t.Errorf("%d lines, want 1:\n%s", got, w.log)
	}
	w.problem = nil
	w.require(t, "without", question)
	w.problem = errors.New("again")
	w.require(t, "with another", question)
	if got := strings.Count(w.log.String(), line); got != 2 {
		t.Errorf("%d lines, want 2:\n%s", got, w.log)
	}
}

// One mark that brings a panic keeps no other from being looked at.
func TestAPanicStaysWithItsMark(t *testing.T) {
	w := newWorld(t, "", Mark{Object: Ref{Kind: "Object", NamespacedName: types.NamespacedName{Name: "bad"}}, Rollout: ours.Rollout}, ours)
	takeOff := w.takeOff
	w.takeOff = func(ctx context.Context, object Ref, rollout types.NamespacedName) (bool, error) {
		if object.Name == "bad" {
			panic("bad")
		}
		return takeOff(ctx, object, rollout)
	}
	w.require(t, "beside a panic", question)
}

// Marks in a namespace that hangs hold up neither those of another nor the next look.
func TestANamespaceThatHangsHasItsShareOfTheOrphans(t *testing.T) {
	var marks []Mark
	for i := range 100 {
		marks = append(marks, Mark{Object: Ref{"Object", types.NamespacedName{Namespace: "hangs", Name: strconv.Itoa(i)}}, Rollout: ours.Rollout})
	}
	w := newWorld(t, "", append(marks, ours)...)
	takeOff := w.takeOff
	w.takeOff = func(ctx context.Context, object Ref, rollout types.NamespacedName) (bool, error) {
		if object.Namespace == "hangs" {
			<-ctx.Done()
			return false, ctx.Err()
		}
		return takeOff(ctx, object, rollout)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		look := w.remover.look(ctx)
		defer look.Wait()
		select {
		case got := <-w.asked:
			if got != question {
				t.Errorf("asked about %s", got)
			}
		case <-time.After(orphanTimeout - time.Second):
			t.Error("a mark waits for another namespace")
		}
		// A look leaves out a mark whose work has not ended yet.
		plugintest.Eventually(t, "the work on the mark ends", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.underWay[ours]
		})
	}
	if waiting := w.shares.Waiting("hangs"); waiting != 98 {
		t.Errorf("%d marks wait, want each once", waiting)
	}
	cancel()
}
