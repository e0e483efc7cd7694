package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// soon is far longer than a repair takes, and far shorter than the 15 minutes
// after which the controller looks at a paused Rollout by itself.
const soon = 20 * time.Second

var wipe = map[string]*string{e2etest.SplitAnnotation: nil, e2etest.OwnerAnnotation: nil}

// TestAChangedSplitIsPutBack: if another tool removes or changes the split during a
// pause, the plugin restores it without the controller. An Event says so, and names the
// field manager of a changed value.
func TestAChangedSplitIsPutBack(t *testing.T) {
	t.Parallel()
	app := e2etest.App{Steps: twoPauses}
	n, record := pausedAt20(t, app)

	n.Annotate("app", wipe)
	n.AwaitSplitWithin(soon, "app", app.Split(20))
	n.AwaitEvent("Rollout", "app", "SplitRestored", "http.kedify.io/weighted-backends was removed", "HTTPScaledObject "+n.Name+"/app is as this canary needs it again", "abort the Rollout")

	wrong := e2etest.SplitText(e2etest.Weight{Service: "app-stable", Weight: 1}, e2etest.Weight{Service: "app-canary", Weight: 99})
	n.Annotate("app", map[string]*string{e2etest.SplitAnnotation: &wrong})
	n.AwaitSplitWithin(soon, "app", app.Split(20))
	n.AwaitEvent("Rollout", "app", "SplitRestored", "field manager another-tool changed the split to app-stable=1,app-canary=99")

	n.Promote("app")
	n.AwaitPaused("app", 3)
	n.Abort("app")
	n.AwaitAborted("app")
	n.AwaitSplit("app", e2etest.NoSplit)
	record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit, app.Split(20),
		e2etest.Split{Text: wrong, Owner: "app"}, app.Split(20), app.Split(60), e2etest.NoSplit)
}

// TestAnInsistentWriter: if another tool keeps removing the split, repairs back off and
// one Event reports them; the controller's weights and abort are not held up.
func TestAnInsistentWriter(t *testing.T) {
	t.Parallel()
	app := e2etest.App{Steps: twoPauses}
	n, record := pausedAt20(t, app)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = n.TryAnnotate(ctx, "app", wipe)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	begun := time.Now()
	repairs := func(ctx context.Context) int {
		log, err := n.ControllerLog(ctx)
		if err != nil {
			return 0
		}
		count := 0
		for line := range strings.Lines(log) {
			if strings.Contains(line, "split put back") && strings.Contains(line, n.Name+"/app") {
				count++
			}
		}
		return count
	}
	e2etest.Eventually(t, e2etest.Patience, "four repairs", func(ctx context.Context) error {
		if got := repairs(ctx); got < 4 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	// The first repair comes at once, the others after 1, 2 and 4 s.
	if took := time.Since(begun); took < 6*time.Second {
		t.Errorf("four repairs within %s", took)
	}
	n.Promote("app")
	e2etest.Eventually(t, e2etest.Patience, "the next weight", func(context.Context) error {
		if !slices.Contains(record.Splits(), app.Split(60)) {
			return errors.New("not seen yet")
		}
		return nil
	})
	n.Abort("app")
	n.AwaitAborted("app")
	cancel()
	<-ended
	n.RequireSplit("app", e2etest.NoSplit)
	events, err := n.Kube.CoreV1().Events(n.Name).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=SplitRestored"})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Items) != 1 {
		t.Errorf("%d Events for one writer: %v", len(events.Items), events.Items)
	}
}

// TestAnObjectMadeAnewMidCanary: an HTTPScaledObject that is deleted and created again
// in the middle of a canary gets its split again.
func TestAnObjectMadeAnewMidCanary(t *testing.T) {
	t.Parallel()
	app := e2etest.App{Steps: twoPauses}
	n, _ := pausedAt20(t, app)
	n.Delete(e2etest.HTTPScaledObject("app", "app"))
	n.Apply(e2etest.HTTPScaledObject("app", "app"))
	n.AwaitSplitWithin(soon, "app", app.Split(20))
}

// TestPingPongObjectComesLater: with pingPong the split has to name the stable Service
// at weight 0 too, so it is set once a missing HTTPScaledObject has been created.
func TestPingPongObjectComesLater(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	applyPingPong(n, "")
	n.Apply(e2etest.HTTPScaledObject("app", "app"))
	n.AwaitSplit("app", e2etest.Split{
		Text:  e2etest.SplitText(e2etest.Weight{Service: "app-ping", Weight: 100}, e2etest.Weight{Service: "app-pong", Weight: 0}),
		Owner: "app",
	})
}

// TestPingPongAbortWithAFaultyConfiguration: an abort gives the stable Service all
// requests on the HTTPScaledObjects whose split the Rollout owns, although the plugin
// cannot read which HTTPScaledObjects the Rollout names.
func TestPingPongAbortWithAFaultyConfiguration(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	applyPingPong(n, "- setWeight: 30\n- pause: {}\n", e2etest.HTTPScaledObject("app", "app"))
	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.PatchRollout("app", faults["mistyped key"].patch)
	n.AwaitEvent("Rollout", "app", "TrafficRoutingError", faults["mistyped key"].event, "the split stays as it is")
	n.Abort("app")
	n.AwaitAborted("app")
	n.AwaitSplit("app", e2etest.Split{
		Text:  e2etest.SplitText(e2etest.Weight{Service: "app-ping", Weight: 100}, e2etest.Weight{Service: "app-pong", Weight: 0}),
		Owner: "app",
	})
}

// TestASplitWhoseRolloutIsGone: if a Rollout is deleted or stops using the plugin in
// the middle of a canary, its split is removed within a minute.
func TestASplitWhoseRolloutIsGone(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(n *e2etest.Namespace){
		"deleted": func(n *e2etest.Namespace) { n.Kubectl("delete", "rollout", "app", "--wait=true") },
		"stops using the plugin": func(n *e2etest.Namespace) {
			n.PatchRollout("app", `{"spec":{"strategy":{"canary":{"trafficRouting":null}}}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := e2etest.App{Steps: twoPauses}
			n, record := pausedAt20(t, app)
			leave(n)
			n.AwaitSplitWithin(time.Minute, "app", e2etest.NoSplit)
			n.AwaitEvent("HTTPScaledObject", "app", "SplitRemoved", "Rollout "+n.Name+"/app")
			record.Require(e2etest.NoSplit, app.Split(20), e2etest.NoSplit)
		})
	}
}

// TestPingPongRolloutDeleted: after the Rollout is deleted, the Service that was stable
// gets all requests, since the Service in scaleTargetRef may have no pods.
func TestPingPongRolloutDeleted(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	applyPingPong(n, "- setWeight: 30\n- pause: {}\n", e2etest.HTTPScaledObject("app", "app"))
	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitPaused("app", 1)
	n.Kubectl("delete", "rollout", "app", "--wait=true", "--cascade=orphan")
	n.AwaitSplitWithin(time.Minute, "app", e2etest.Split{Text: e2etest.SplitText(e2etest.Weight{Service: "app-ping", Weight: 100}), Owner: e2etest.Absent})
}

// TestOwnershipExpires: a Rollout takes over the split of another Rollout that no
// longer uses the HTTPScaledObject.
func TestOwnershipExpires(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	_, second, _ := twoOfOne(n)
	n.PatchRollout("first", `{"spec":{"strategy":{"canary":{"trafficRouting":null}}}}`)
	n.Reconcile("second")
	n.AwaitPaused("second", 1)
	n.RequireSplit("shared", second.Split(20))
}
