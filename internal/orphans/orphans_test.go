package orphans

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
)

type mark = Mark[types.NamespacedName]

// world is a Remover with what it looks at and what it is asked.
type world struct {
	*Remover[types.NamespacedName]
	server *apiservertest.Server
	marks  []mark
	log    *plugintest.Output
	// owns and problem are the answer to each question.
	owns    bool
	problem error
	asked   chan string
}

func newWorld(t *testing.T, namespace string, marks ...mark) *world {
	t.Helper()
	w := &world{server: apiservertest.New(t), marks: marks, log: &plugintest.Output{}, asked: make(chan string, 100)}
	logger := hclog.New(&hclog.LoggerOptions{Output: w.log})
	rollouts := kube.NewMetadata(w.server.Config, kube.MetadataOptions{Resource: v1alpha1.RolloutGVR, Namespace: namespace, Logger: logger})
	t.Cleanup(rollouts.Close)
	w.Remover = New(Options[types.NamespacedName]{
		Rollouts: rollouts,
		Marks:    func(context.Context) []mark { return w.marks },
		TakeOff: func(_ context.Context, object, rollout types.NamespacedName) (bool, error) {
			w.asked <- object.String() + " of " + rollout.String()
			return w.owns, w.problem
		},
		Logger: logger,
	})
	plugintest.Eventually(t, "the watch of Rollouts is current", func() bool { _, ok := rollouts.Watched("demo", "none"); return ok })
	return w
}

// put has the server have a Rollout, and waits until the watch shows it.
func (w *world) put(t *testing.T, generation int64) *v1alpha1.Rollout {
	t.Helper()
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "u-1", Generation: generation}}
	w.server.PutObject("rollouts", ro)
	plugintest.Eventually(t, "the watch shows the Rollout", func() bool {
		seen, _ := w.opts.Rollouts.Watched("demo", "app")
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
	object = types.NamespacedName{Namespace: "infra", Name: "object"}
	ours   = mark{Object: object, Rollout: types.NamespacedName{Namespace: "demo", Name: "app"}}
)

const question = "infra/object of demo/app"

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
	w.marks[0].State = "other labels"
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
	w.marks = []mark{ours}
	w.require(t, "when it is on again", question)
}

// Of Rollouts that the watch is not about nothing is known.
func TestARolloutOutsideTheWatchIsNotJudged(t *testing.T) {
	w := newWorld(t, "demo", mark{Object: object, Rollout: types.NamespacedName{Namespace: "other", Name: "app"}}, ours)
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
	w := newWorld(t, "", mark{Object: types.NamespacedName{Name: "bad"}, Rollout: ours.Rollout}, ours)
	takeOff := w.opts.TakeOff
	w.opts.TakeOff = func(ctx context.Context, object, rollout types.NamespacedName) (bool, error) {
		if object.Name == "bad" {
			panic("bad")
		}
		return takeOff(ctx, object, rollout)
	}
	w.require(t, "beside a panic", question)
}
