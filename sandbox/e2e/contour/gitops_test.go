package contour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/gitopstest"
)

// argoManager is the field manager that Argo CD applies as.
const argoManager = "argocd-controller"

// argoCD is a stand-in for an Application with self-heal that holds an HTTPRoute: it
// compares the live route with the one in git, and applies the one in git if they
// differ.
type argoCD struct {
	n   *e2etest.Namespace
	git atomic.Pointer[string]
	argoSettings
	// syncs counts how often it has found a difference.
	syncs atomic.Int64
}

// argoSettings are the settings of an Application that make a difference for a canary.
type argoSettings struct {
	// ignores is ignoreDifferences with the article's expression: it ignores spec.rules
	// of a route with the label that a canary is in progress, and is evaluated for git
	// and the live route separately.
	ignores bool
	// serverSideDiff is compare-options ServerSideDiff=true: git's side is the result
	// of a dry-run apply, which keeps the label of the live route. By default it is the
	// manifest, which does not have the label.
	serverSideDiff bool
	// respects is the sync option RespectIgnoreDifferences=true: a sync applies the
	// ignored fields as the live route has them.
	respects bool
}

func newArgoCD(n *e2etest.Namespace, route string, settings argoSettings) *argoCD {
	a := &argoCD{n: n, argoSettings: settings}
	a.git.Store(&route)
	return a
}

// part is what it applies each time.
func (a *argoCD) part() gitopstest.Part {
	return gitopstest.Part{Flags: gitopstest.ServerSide(argoManager), Manifest: a.outOfSync}
}

// outOfSync returns what to apply, "" if there is no difference.
func (a *argoCD) outOfSync(ctx context.Context) (string, error) {
	objects, err := e2etest.Decode(*a.git.Load())
	if err != nil {
		return "", err
	}
	route := objects[0]
	live, err := httpRoutes.client(a.n).Get(ctx, route.GetName(), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	// With the live route's version: if the route changes meanwhile, it is compared
	// anew.
	applied := route.DeepCopy()
	applied.SetResourceVersion(live.GetResourceVersion())
	target, err := httpRoutes.client(a.n).Apply(ctx, route.GetName(), applied, metav1.ApplyOptions{
		FieldManager: argoManager, Force: true, DryRun: []string{metav1.DryRunAll},
	})
	if apierrors.IsConflict(err) {
		return a.outOfSync(ctx)
	}
	if err != nil {
		return "", err
	}
	ignored, ignoredInGit := a.ignores && inProgress(live), a.ignores && inProgress(route)
	if a.serverSideDiff {
		ignoredInGit = a.ignores && inProgress(target)
	}
	if ignored && ignoredInGit {
		setRules(target, live)
	}
	if ignored == ignoredInGit && cmp.Equal(ofPeople(target), ofPeople(live)) {
		return "", nil
	}
	a.syncs.Add(1)
	if ignored && a.respects {
		setRules(route, live)
	}
	text, err := json.Marshal(route.Object)
	return string(text), err
}

func inProgress(route *unstructured.Unstructured) bool {
	return route.GetLabels()[inProgressLabel] == "in-progress"
}

func setRules(route, like *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(like.Object, "spec", "rules")
	if err := unstructured.SetNestedSlice(route.Object, rules, "spec", "rules"); err != nil {
		panic(err) // both are routes
	}
}

// With the settings of docs/how-to/gitops.md a canary is not disturbed: self-heal finds no
// difference, and when another part of the route changes in git, the sync leaves the
// rules alone. At rest nothing differs.
func TestArgoCDWithItsSettings(t *testing.T) {
	t.Parallel()
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	gitopstest.Fixed(gitopstest.ServerSide(argoManager), c.route).Apply(t, c.Namespace)
	argo := newArgoCD(c.Namespace, c.route, argoSettings{ignores: true, serverSideDiff: true, respects: true})
	tool := gitopstest.Start(t, c.Namespace, argo.part())
	tool.AwaitRounds(t, 2)
	record := recordWeights(t, c.Namespace, name)

	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	tool.AwaitRounds(t, 3)
	requireWeights(t, c.Namespace, name, "80/20")
	if got := argo.syncs.Load(); got != 0 {
		t.Errorf("self-heal has found %d differences, want none", got)
	}

	changedRoute := changed(t, c.route, "team: checkout", "team: payments")
	argo.git.Store(&changedRoute)
	awaitRoute(t, c.Namespace, name, e2etest.Patience, "what git has changed", func(route *unstructured.Unstructured) error {
		if got := route.GetLabels()["team"]; got != "payments" {
			return errors.New("label team is " + got)
		}
		return nil
	})
	tool.AwaitRounds(t, 2)
	requireWeights(t, c.Namespace, name, "80/20")
	if got := argo.syncs.Load(); got != 1 {
		t.Errorf("a change in git is synced %d times, want once", got)
	}

	c.Promote(name)
	c.AwaitPaused(name, 3)
	requireWeights(t, c.Namespace, name, "40/60")
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRoute(t, c.Namespace, name, e2etest.Patience, "rest", checkRest)
	tool.AwaitRounds(t, 3)
	tool.Stop()
	if got := argo.syncs.Load(); got != 1 {
		t.Errorf("Argo CD has synced the route %d times in all, want once", got)
	}
	record.requireWeights("100/0", "80/20", "40/60", "0/100", "100/0")
	requireWrites(t, c.Namespace, name, "patch", 4)
}

// With Argo CD's default comparison the expression finds the label in the live route
// and not in git: the Application is out of sync as long as the canary lasts. A sync
// applies the rules of the live route, so that the weights stay.
func TestArgoCDWithoutServerSideDiff(t *testing.T) {
	t.Parallel()
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	gitopstest.Fixed(gitopstest.ServerSide(argoManager), c.route).Apply(t, c.Namespace)
	before := routeOf(t, c.Namespace, name)
	argo := newArgoCD(c.Namespace, c.route, argoSettings{ignores: true, respects: true})
	tool := gitopstest.Start(t, c.Namespace, argo.part())
	tool.AwaitRounds(t, 2)
	if got := argo.syncs.Load(); got != 0 {
		t.Errorf("at rest self-heal has found %d differences, want none", got)
	}
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	// Argo CD may apply, just after the weight was set, what it has read just before.
	tool.AwaitRounds(t, 2)
	c.awaitWeights(t, soon, "80/20")
	record := recordWeights(t, c.Namespace, name)
	synced := argo.syncs.Load()
	e2etest.Eventually(t, e2etest.Patience, "self-heal finds a difference again and again", func(context.Context) error {
		if got := argo.syncs.Load() - synced; got < 3 {
			return fmt.Errorf("so far %d times", got)
		}
		return nil
	})
	record.requireWeights("80/20")
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
}

// Without the sync option self-heal reverts the weights, with the article's expression
// or without. The router repairs a single revert at once; against repeated reverts it
// writes less and less often, and the Rollout's Events name the other writer. The
// canary can still be aborted, and at rest neither of them writes.
func TestArgoCDTakesTheWeightsBack(t *testing.T) {
	t.Parallel()
	for title, settings := range map[string]argoSettings{"no settings": {}, "the article's expression alone": {ignores: true}} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			testArgoCDTakesTheWeightsBack(t, settings)
		})
	}
}

func testArgoCDTakesTheWeightsBack(t *testing.T, settings argoSettings) {
	c := startCanary(t, e2etest.App{Steps: twoPauses}, routeManifest)
	gitopstest.Fixed(gitopstest.ServerSide(argoManager), c.route).Apply(t, c.Namespace)
	argo := newArgoCD(c.Namespace, c.route, settings)
	before := routeOf(t, c.Namespace, name)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 1)
	c.AwaitReconciled(e2etest.ControllerNamespace, name)
	requireWeights(t, c.Namespace, name, "80/20")

	argo.part().Apply(t, c.Namespace)
	reverted := time.Now()
	c.awaitWeights(t, soon, "80/20")
	t.Logf("put back %s after it was reverted", time.Since(reverted).Round(time.Millisecond))
	event := c.AwaitEvent("Rollout", name, "RouteRestored", "field manager "+argoManager+" (", "has changed HTTPRoute "+c.Name+"/app")
	t.Log(event.Message)

	earlier, reverts := c.routerWrites(), argo.syncs.Load()
	begun := time.Now()
	tool := gitopstest.Start(t, c.Namespace, argo.part())
	tool.AwaitRounds(t, 15)
	repairs := c.routerWrites() - earlier
	reverts = argo.syncs.Load() - reverts
	elapsed := time.Since(begun)
	t.Logf("%d repairs against %d reverts within %s", repairs, reverts, elapsed.Round(time.Millisecond))
	// The next repair comes a second after the first at the earliest, then after two,
	// then four.
	if most := bits.Len(uint(elapsed/time.Second) + 1); repairs == 0 || repairs > most {
		t.Errorf("the router has put the route back %d times within %s, want some and at most %d", repairs, elapsed.Round(time.Millisecond), most)
	}

	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
	atRest, syncs := c.routerWrites(), argo.syncs.Load()
	tool.AwaitRounds(t, 3)
	tool.Stop()
	if now := c.routerWrites(); now != atRest || argo.syncs.Load() != syncs {
		t.Errorf("at rest the router has written the route %d times, and Argo CD %d times", now-atRest, argo.syncs.Load()-syncs)
	}
	awaitRest(t, c.Namespace, before)
}

// routerWrites is how often the router has written the route so far.
func (c canary) routerWrites() int {
	writes := c.ControllerWrites(name)
	return len(slices.DeleteFunc(writes, func(w string) bool { return strings.Contains(w, " ") }))
}

// checkRest returns an error unless a route has the weights of routeManifest, and
// neither the label nor the annotation of the router.
func checkRest(route *unstructured.Unstructured) error { return checkRestAt(route, "100/0") }

// checkRestAt is checkRest for a route with other weights, as weightsOf shows them.
func checkRestAt(route *unstructured.Unstructured, weights string) error {
	if got := weightsOf(route); got != weights {
		return errors.New("its weights are " + got)
	}
	if got := route.GetLabels()[inProgressLabel] + route.GetAnnotations()[stateAnnotation]; got != "" {
		return errors.New("it still has " + got)
	}
	return nil
}
