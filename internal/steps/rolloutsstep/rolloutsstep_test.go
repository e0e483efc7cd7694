package rolloutsstep

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// controller calls the plugin as the controller does.
type controller struct {
	t      *testing.T
	server *apiservertest.Server
	kind   *Kind
	plugin *steps.Plugin
	// revision is the revision of the last canary that anew has made.
	revision int

	mu       sync.Mutex
	events   []string
	statuses map[string]json.RawMessage
}

func newController(t *testing.T, change ...func(*Options)) *controller {
	c := &controller{t: t, server: apiservertest.New(t), statuses: map[string]json.RawMessage{}}
	c.kind = newKind(t, c.server, change...)
	c.restart(time.Minute)
	return c
}

// restart starts a new process of the plugin.
func (c *controller) restart(callWait time.Duration) {
	c.plugin = steps.New(steps.Options{Kind: c.kind, Events: c, Logger: hclog.NewNullLogger(), CallWait: callWait})
}

func (c *controller) Warn(about *v1alpha1.Rollout, reason, _, message string) {
	c.Note(about, reason, message)
}

func (c *controller) Note(about *v1alpha1.Rollout, reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, fmt.Sprintf("%s %s: %s", about.Name, reason, message))
}

// put stores a Rollout in the API server, and returns it as the controller then reads it.
func (c *controller) put(ro *v1alpha1.Rollout) *v1alpha1.Rollout {
	c.t.Helper()
	c.server.PutObject("rollouts", ro)
	text, err := json.Marshal(c.server.Object("rollouts", ro.Namespace, ro.Name))
	if err != nil {
		c.t.Fatal(err)
	}
	var there v1alpha1.Rollout
	if err := json.Unmarshal(text, &there); err != nil {
		c.t.Fatal(err)
	}
	return &there
}

// anew makes a Rollout's canary a new one, for which no step has been called yet.
func (c *controller) anew(ro *v1alpha1.Rollout) {
	c.revision++
	ro.Annotations = map[string]string{"rollout.argoproj.io/revision": fmt.Sprint(c.revision)}
	clear(c.statuses)
}

// pod stores a pod of a Rollout's canary in the API server.
func (c *controller) pod(ro *v1alpha1.Rollout, name string, created metav1.Time, change ...func(*corev1.Pod)) {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: ro.Namespace, Name: name, CreationTimestamp: created,
		Labels:          map[string]string{"rollouts-pod-template-hash": ro.Status.CurrentPodHash},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: ro.Name + "-" + ro.Status.CurrentPodHash, Controller: &yes}},
	}}
	for _, change := range change {
		change(pod)
	}
	c.server.PutObject("pods", pod)
}

// call returns the index and the call of a Rollout's current step.
func (c *controller) call(ro *v1alpha1.Rollout) (index int32, call *types.RpcStepContext) {
	index = *ro.Status.CurrentStepIndex
	config := ro.Spec.Strategy.Canary.Steps[index].Plugin.Config
	return index, &types.RpcStepContext{PluginName: plugin, Config: config, Status: c.statuses[fmt.Sprintf("%s/%d", ro.Name, index)]}
}

// run makes the Run of a Rollout's current step, with the Rollout as gob transfers it.
func (c *controller) run(ro *v1alpha1.Rollout) types.RpcStepResult {
	c.t.Helper()
	var wire bytes.Buffer
	var arrived v1alpha1.Rollout
	if err := gob.NewEncoder(&wire).Encode(ro); err != nil {
		c.t.Fatal(err)
	}
	if err := gob.NewDecoder(&wire).Decode(&arrived); err != nil {
		c.t.Fatal(err)
	}
	return c.runAs(ro, &arrived)
}

// runAs makes the Run of a Rollout; the plugin receives arrived.
func (c *controller) runAs(ro, arrived *v1alpha1.Rollout) types.RpcStepResult {
	c.t.Helper()
	index, call := c.call(ro)
	result, rpcErr := c.plugin.Run(arrived, call)
	if rpcErr.HasError() {
		c.t.Fatal(rpcErr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses[fmt.Sprintf("%s/%d", ro.Name, index)] = result.Status
	return result
}

// mustRun is run with a check of the answer.
func (c *controller) mustRun(ro *v1alpha1.Rollout, phase types.StepPhase, said string) {
	c.t.Helper()
	if got := c.run(ro); got.Phase != phase || !strings.Contains(got.Message, said) {
		c.t.Errorf("%s: %s: %q, want %s: %q", ro.Name, got.Phase, got.Message, phase, said)
	}
}

// eventually runs a step until its answer is as expected: the watch takes a moment.
func (c *controller) eventually(ro *v1alpha1.Rollout, phase types.StepPhase, said string) {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		got := c.run(ro)
		if got.Phase == phase && strings.Contains(got.Message, said) {
			return
		}
		if got.Phase != types.PhaseRunning || time.Now().After(deadline) {
			c.t.Fatalf("%s: %s: %q, want %s: %q", ro.Name, got.Phase, got.Message, phase, said)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// waitsFor gives a Rollout steps whose check waits for the named Rollouts.
func waitsFor(names ...string) func(*v1alpha1.Rollout) {
	config, err := json.Marshal(map[string]any{"names": names})
	if err != nil {
		panic(err)
	}
	return withSteps(weight(20), check(string(config)), weight(50))
}

func without(resource, verb string) apiservertest.Fault {
	return func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		if request.Resource != resource || request.Verb != verb {
			return false
		}
		apiservertest.Forbidden(w, request)
		return true
	}
}

func TestRolloutsMeetAtABarrier(t *testing.T) {
	c := newController(t)
	all := waitsFor("a", "b", "c")
	a := c.put(canary("a", 1, all))
	c.put(canary("b", 0, all))
	c.put(canary("c", 2, all))
	c.mustRun(a, types.PhaseRunning, "barrier acme/check-others#1: waiting for 1 of 2: demo/b is at step 1 of 3, before step 2")
	b := c.put(canary("b", 1, all))
	c.mustRun(b, types.PhaseSuccessful, "barrier acme/check-others#1: demo/a is at it; demo/c is past it")
	c.eventually(a, types.PhaseSuccessful, "barrier acme/check-others#1: demo/b is at it; demo/c is past it")
	if len(c.events) != 1 || !strings.HasPrefix(c.events[0], "a StepWaiting: ") {
		t.Errorf("Events: %v", c.events)
	}
}

// gob makes a pointer to 0 nil: a Rollout at its first step has no step index.
func TestABarrierAtTheFirstStep(t *testing.T) {
	c := newController(t)
	all := withSteps(check(`{"names": ["a", "b"]}`), weight(20))
	a := c.put(canary("a", 0, all))
	c.put(canary("b", 0, all))
	c.mustRun(a, types.PhaseSuccessful, "demo/b is at it")
}

func TestAWaitForSomethingElseIsSaidInAnEvent(t *testing.T) {
	c := newController(t)
	a := c.put(canary("a", 1, waitsFor("b", "c")))
	c.put(canary("b", 0))
	c.put(canary("c", 0))
	c.mustRun(a, types.PhaseRunning, "waiting for 2 of 2: demo/b is at step 1")
	c.put(canary("b", 0, paused))
	c.eventually(a, types.PhaseRunning, "demo/b is at step 1 of 5, before step 2: it is Paused")
	if len(c.events) != 1 {
		t.Errorf("Events while it waits for the same: %v", c.events)
	}
	c.put(canary("b", 1))
	c.eventually(a, types.PhaseRunning, "waiting for 1 of 2: demo/c is at step 1")
	c.server.Delete("rollouts", "demo", "c")
	c.eventually(a, types.PhaseRunning, "waiting for 1 of 2: demo/c does not exist")
	if len(c.events) != 3 {
		t.Errorf("Events: %v", c.events)
	}
	c.put(canary("c", 0, healthy))
	c.eventually(a, types.PhaseSuccessful, "demo/c is Healthy")
}

func TestRolloutsRollBackTogether(t *testing.T) {
	c := newController(t)
	a := c.put(canary("a", 1, waitsFor("b")))
	c.pod(a, "a-1", at(0))
	c.put(canary("b", 0))
	c.mustRun(a, types.PhaseRunning, "waiting for 1 of 1")
	c.server.Delete("pods", "demo", "a-1") // evicted: the age is known from before
	c.put(canary("b", 0, aborted(1)))
	c.eventually(a, types.PhaseFailed, "barrier acme/check-others#1: failed with others: demo/b failed at 2026-11-22T12:00:01Z, after this canary began")
}

// After a joint rollback the first Rollout that is retried waits for the others, by name.
func TestAnOlderFailureIsWaitedFor(t *testing.T) {
	c := newController(t)
	a := canary("a", 1, waitsFor("b"))
	c.pod(a, "a-old", at(-10), func(pod *corev1.Pod) { now := at(0); pod.DeletionTimestamp = &now })
	c.pod(a, "a-stranger", at(-10), func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = "aa-v2" })
	c.pod(a, "a-nobody", at(-10), func(pod *corev1.Pod) { pod.OwnerReferences = nil })
	c.pod(a, "a-1", at(5))
	c.pod(a, "a-2", at(3))
	c.put(canary("b", 0, aborted(1)))
	a = c.put(a)
	c.mustRun(a, types.PhaseRunning, "waiting for 1 of 1: demo/b failed at 2026-11-22T12:00:01Z, before this canary began: retry it")
	c.put(canary("b", 0))
	c.eventually(a, types.PhaseRunning, "demo/b is at step 1 of 5")
	c.put(canary("b", 1))
	c.eventually(a, types.PhaseSuccessful, "demo/b is at it")
}

// The pods of an aborted canary stay for abortScaleDownDelaySeconds. A retry in that time
// begins with those pods, and earlier failures must not fail it again.
func TestARetryWithThePodsOfBeforeWaitsForAnOlderFailure(t *testing.T) {
	c := newController(t)
	c.kind.cluster.now = func() time.Time { return at(10).Add(700 * time.Millisecond) }
	a := c.put(canary("a", 1, waitsFor("b")))
	c.pod(a, "a-1", at(0))
	c.put(canary("b", 1, aborted(1)))
	c.mustRun(a, types.PhaseFailed, "demo/b failed at 2026-11-22T12:00:01Z")
	c.put(canary("a", 1, waitsFor("b"), aborted(2)))
	c.put(canary("a", 0, waitsFor("b"))) // retried
	a = c.put(canary("a", 1, waitsFor("b"), c.anew))
	c.mustRun(a, types.PhaseRunning, "demo/b failed at 2026-11-22T12:00:01Z, before this canary began: retry it")
	c.put(canary("b", 1, aborted(10))) // in the second of the retry
	c.eventually(a, types.PhaseFailed, "demo/b failed at 2026-11-22T12:00:10Z")
}

// A Rollout that is created anew under the same name has not been retried, whether the
// watch shows the deletion of the first one or was interrupted then.
func TestARetryIsOfOneRollout(t *testing.T) {
	kept := func(uid string, aborted bool) *kube.Summary[Rollout] {
		return &kube.Summary[Rollout]{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a", UID: k8stypes.UID(uid)}, Content: Rollout{Aborted: aborted}}
	}
	now := at(10).Time
	for name, after := range map[string]func(*cluster){
		"deleted":        func(c *cluster) { c.changed(kept("1", false), nil) },
		"another":        func(c *cluster) { c.changed(kept("1", false), kept("2", false)) },
		"another, later": func(c *cluster) { c.changed(kept("1", true), kept("2", false)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(Options{Logger: hclog.NewNullLogger()})
			c.now = func() time.Time { return now }
			c.changed(nil, kept("1", true))
			c.changed(kept("1", true), kept("1", false))
			if got := c.retried[nameOf("a")]; !got.Equal(now) {
				t.Fatalf("retried at %v, want %v", got, now)
			}
			after(c)
			if got, there := c.retried[nameOf("a")]; there {
				t.Errorf("retried at %v", got)
			}
		})
	}
}

func nameOf(own string) name { return name{"demo", own} }

func TestTheAgeOfPodsIsAskedForOnce(t *testing.T) {
	c := newController(t)
	selectors := map[string]bool{}
	lists := 0
	c.server.SetFault(func(_ http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
		if request.Resource == "pods" {
			lists++
			selectors[r.URL.Query().Get("labelSelector")+" "+r.URL.Query().Get("fieldSelector")] = true
		}
		return false
	})
	a := c.put(canary("a", 1, waitsFor("b")))
	c.pod(a, "a-1", at(0))
	c.put(canary("b", 0))
	gone := c.put(canary("gone", 1, waitsFor("b"))) // its status counts pods that do not exist
	for range 5 {
		c.mustRun(a, types.PhaseRunning, "demo/b is at step 1")
		c.mustRun(gone, types.PhaseRunning, "demo/b is at step 1")
	}
	if lists != 2 || len(selectors) != 1 || !selectors["rollouts-pod-template-hash=v2 status.phase!=Failed,status.phase!=Succeeded"] {
		t.Errorf("%d lists of pods, want one for each of two: %v", lists, selectors)
	}
}

// Before the first setWeight, and with setWeight: 0, a canary may have no pods. A failure
// from before it comes to the barrier is older than the canary, and a later failure is
// newer, in the same second, too: the API server's times have whole seconds.
func TestACanaryWithoutPods(t *testing.T) {
	c := newController(t)
	c.kind.cluster.now = func() time.Time { return at(5).Add(300 * time.Millisecond) }
	c.server.SetFault(without("pods", "list")) // pods are not listed
	noPods := func(ro *v1alpha1.Rollout) { ro.Status.UpdatedReplicas = 0 }
	a := c.put(canary("a", 1, waitsFor("b"), noPods))
	c.put(canary("b", 0, aborted(5)))
	c.mustRun(a, types.PhaseRunning, "demo/b failed at 2026-11-22T12:00:05Z, before this canary began: retry it")
	c.put(canary("b", 0))
	c.eventually(a, types.PhaseRunning, "demo/b is at step 1")
	c.put(canary("b", 0, aborted(6)))
	c.eventually(a, types.PhaseFailed, "demo/b failed at 2026-11-22T12:00:06Z, after this canary began")

	a = c.put(canary("a", 1, waitsFor("b", "c"), noPods, c.anew))
	c.put(canary("b", 0))
	c.put(canary("c", 0, aborted(3)))
	a = c.put(a)
	c.mustRun(a, types.PhaseRunning, "demo/c failed at 2026-11-22T12:00:03Z, before this canary began: retry it")
	c.put(canary("b", 0, aborted(5)))
	c.eventually(a, types.PhaseFailed, "demo/b failed at 2026-11-22T12:00:05Z, after this canary began")
}

func TestPodsThatMayNotBeListed(t *testing.T) {
	c := newController(t)
	c.server.SetFault(without("pods", "list"))
	a := c.put(canary("a", 1, waitsFor("b")))
	c.pod(a, "a-1", at(0))
	c.put(canary("b", 1))
	c.mustRun(a, types.PhaseRunning, "grant the controller list of pods in namespace demo")
	c.server.SetFault(nil)
	c.mustRun(a, types.PhaseSuccessful, "demo/b is at it")
}

func TestASelectorSelects(t *testing.T) {
	c := newController(t, func(opts *Options) { opts.Namespaces = []string{"payments"} })
	team := func(ro *v1alpha1.Rollout) { ro.Labels = map[string]string{"team": "shop"} }
	selects := withSteps(weight(20), check(`{"selector": {"matchLabels": {"team": "shop"}}}`))
	a := c.put(canary("a", 1, selects))
	alone := "the selector (team=shop) matches 0 other Rollouts in namespace demo, and min is 1: create or label them, or set min: 0"
	c.mustRun(a, types.PhaseRunning, alone)
	if len(c.events) != 1 || !strings.Contains(c.events[0], alone) {
		t.Errorf("Events: %v", c.events)
	}
	a = c.put(canary("a", 1, team, c.anew, withSteps(weight(20), check(`{"selector": {"matchLabels": {"team": "shop"}}, "min": 0}`))))
	c.eventually(a, types.PhaseSuccessful, "there is no other Rollout to wait for")

	a = canary("a", 1, selects, team, c.anew)
	c.put(canary("b", 0, team))
	c.put(canary("c", 0)) // of another team
	c.put(canary("d", 0, team, func(ro *v1alpha1.Rollout) { ro.Namespace = "payments" }))
	c.put(canary("e", 0, team, func(ro *v1alpha1.Rollout) { now := at(0); ro.DeletionTimestamp = &now }))
	a = c.put(a) // the watch shows everything up to here
	c.mustRun(a, types.PhaseRunning, "waiting for 1 of 1: demo/b is at step 1")
	c.server.Delete("rollouts", "demo", "b")
	c.eventually(a, types.PhaseRunning, alone)

	a = c.put(canary("a", 1, team, c.anew, withSteps(weight(20), check(`{"selector": {"matchLabels": {"team": "shop"}}, "namespaces": ["demo", "payments"]}`))))
	c.eventually(a, types.PhaseRunning, "waiting for 1 of 1: payments/d is at step 1")
}

// The controller may read all Rollouts. The author of a Rollout must not learn through it
// about Rollouts of other namespaces.
func TestRolloutsOfOtherNamespacesAreNotRead(t *testing.T) {
	for _, config := range []string{
		`{"names": ["payments/b"]}`, `{"names": ["b", "payments/none"]}`,
		`{"selector": {}, "namespaces": ["payments"]}`, `{"selector": {}, "namespaces": ["demo", "payments"]}`,
	} {
		c := newController(t, func(opts *Options) { opts.Namespaces = []string{"orders"} })
		secret := func(ro *v1alpha1.Rollout) { ro.Namespace, ro.Status.Message = "payments", "launch on Friday" }
		c.put(canary("b", 0, paused, secret))
		a := c.put(canary("a", 1, withSteps(weight(20), check(config))))
		got := c.run(a)
		if got.Phase != types.PhaseFailed || !strings.Contains(got.Message, "a Rollout of namespace demo may not wait for those of payments: the registration of the plugin does not allow it (--allow-namespace=payments)") || strings.Contains(got.Message, "Friday") {
			t.Errorf("%s: %s: %q", config, got.Phase, got.Message)
		}
		if requests := c.server.Requests(); len(requests) > 0 {
			t.Errorf("%s: requests %v", config, requests)
		}
	}
}

func TestRolloutsOfOtherNamespacesThatAreAllowed(t *testing.T) {
	for _, allowed := range []string{"payments", "*"} {
		c := newController(t, func(opts *Options) { opts.Namespaces = []string{allowed} })
		c.put(canary("b", 1, func(ro *v1alpha1.Rollout) { ro.Namespace = "payments" }))
		a := c.put(canary("a", 1, waitsFor("payments/b", "demo/a")))
		c.mustRun(a, types.PhaseSuccessful, "payments/b is at it")
	}
}

func TestWithoutAWatchNamesAreReadOneByOne(t *testing.T) {
	for _, verb := range []string{"list", "watch"} {
		c := newController(t)
		c.server.SetFault(without("rollouts", verb))
		a := c.put(canary("a", 1, waitsFor("b", "c")))
		c.put(canary("b", 0))
		c.mustRun(a, types.PhaseRunning, "waiting for 2 of 2: demo/c does not exist; demo/b is at step 1")
		c.put(canary("b", 1))
		c.put(canary("c", 1))
		c.mustRun(a, types.PhaseSuccessful, "demo/b is at it; demo/c is at it")
		selects := c.put(canary("s", 1, withSteps(weight(20), check(`{"selector": {}}`))))
		c.mustRun(selects, types.PhaseRunning, "grant the controller list and watch of rollouts.argoproj.io, or give names")
	}
}

func TestRolloutsThatMayNotBeRead(t *testing.T) {
	c := newController(t)
	c.server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		apiservertest.Forbidden(w, request)
		return true
	})
	a := c.put(canary("a", 1, waitsFor("b")))
	c.put(canary("b", 1))
	c.mustRun(a, types.PhaseRunning, "Rollout demo/b cannot be read: rollouts is forbidden")
	// A 404 from an API server that does not know the resource does not mean that the
	// Rollout is missing.
	c.server.SetFault(func(w http.ResponseWriter, _ *http.Request, _ apiservertest.Request) bool {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return true
	})
	c.mustRun(a, types.PhaseRunning, "Rollout demo/b cannot be read")
}

func TestOneNamespaceIsWatched(t *testing.T) {
	c := newController(t, func(opts *Options) { opts.WatchNamespace, opts.Namespaces = "demo", []string{"payments"} })
	c.put(canary("b", 1, func(ro *v1alpha1.Rollout) { ro.Namespace = "payments" }))
	a := c.put(canary("a", 1, waitsFor("payments/b")))
	c.mustRun(a, types.PhaseSuccessful, "payments/b is at it")
	a = c.put(canary("s", 1, withSteps(weight(20), check(`{"selector": {}, "namespaces": ["payments"]}`))))
	c.mustRun(a, types.PhaseRunning, "which Rollouts of namespace payments the selector ({}) matches is known from a watch alone")
	for _, request := range c.server.Requests() {
		if request.Verb != "get" && request.Namespace != "demo" {
			t.Errorf("%v is not of the namespace", request)
		}
	}
}

// One commit has changed both Rollouts, this one's canary has begun, and the watch does
// not show the other's change yet: the other must not be taken for Healthy.
func TestAWatchThatIsBehindIsNotGoneBy(t *testing.T) {
	c := newController(t)
	c.restart(time.Second) // Runs meet an API server that does not answer
	var mu sync.Mutex
	held := false
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release) // the server does not end before its answers do
	c.server.SetFault(func(_ http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		mu.Lock()
		wait := held && request.Verb != "get"
		mu.Unlock()
		if wait {
			<-gate
		}
		return false
	})
	a := c.put(canary("a", 1, waitsFor("b")))
	b := c.put(canary("b", 0, healthy))
	c.mustRun(a, types.PhaseSuccessful, "demo/b is Healthy")
	mu.Lock()
	held = true
	mu.Unlock()
	c.server.EndWatches()
	b.Generation = 3 // not observed by the controller yet
	c.put(b)
	a = c.put(canary("a", 1, waitsFor("b"), c.anew))
	c.kind.cluster.versionWait = 100 * time.Millisecond
	c.eventually(a, types.PhaseRunning, "the watch of Rollouts is behind the controller")
	release()
	c.eventually(a, types.PhaseRunning, "demo/b has a change that the controller has not observed")
}

// An abort or a full promotion has nothing to undo.
func TestNothingIsTakenBack(t *testing.T) {
	c := newController(t)
	a := c.put(canary("a", 1, waitsFor("b")))
	c.put(canary("b", 0))
	c.mustRun(a, types.PhaseRunning, "")
	_, call := c.call(a)
	if got, err := c.plugin.Terminate(a, call); err.HasError() || got.Phase != types.PhaseSuccessful {
		t.Errorf("Terminate: %v, %v", got, err)
	}
	c.put(canary("b", 1))
	c.eventually(a, types.PhaseSuccessful, "")
	c.server.Requests()
	_, call = c.call(a)
	if got, err := c.plugin.Abort(a, call); err.HasError() || got.Phase != types.PhaseSuccessful {
		t.Errorf("Abort: %v, %v", got, err)
	}
	if requests := c.server.Requests(); len(requests) > 0 {
		t.Errorf("Abort made requests: %v", requests)
	}
}

// A thousand canaries that wait for one another make no request while they wait.
func TestManyWaitingBarriersMakeNoRequests(t *testing.T) {
	c := newController(t)
	const many = 1000
	var waiting []*v1alpha1.Rollout
	for i := range many {
		config := waitsFor(fmt.Sprintf("r%d", (i+1)%many), "late")
		if i%2 == 0 {
			config = withSteps(weight(20), check(`{"selector": {"matchLabels": {"late": "yes"}}}`))
		}
		ro := c.put(canary(fmt.Sprintf("r%d", i), 1, config, func(ro *v1alpha1.Rollout) { ro.Status.CurrentPodHash = fmt.Sprintf("v%d", i) }))
		c.pod(ro, ro.Name+"-1", at(0))
		waiting = append(waiting, ro)
	}
	c.put(canary("late", 0, func(ro *v1alpha1.Rollout) { ro.Labels = map[string]string{"late": "yes"} }))
	checkAll := func() {
		for _, ro := range waiting {
			// On a busy machine the first answer can take longer than a Run waits.
			for end := time.Now().Add(time.Minute); ; {
				got := c.runAs(ro, ro)
				if got.Phase == types.PhaseRunning && strings.Contains(got.Message, "waiting for 1 of ") {
					break
				}
				if got.Phase != types.PhaseRunning || time.Now().After(end) {
					t.Fatalf("%s: %s: %q", ro.Name, got.Phase, got.Message)
				}
			}
		}
	}
	checkAll()
	first := c.server.Requests()
	if watches := slices.DeleteFunc(first, func(r apiservertest.Request) bool { return r.Resource != "rollouts" || r.Verb != "watch" }); len(watches) != 1 {
		t.Errorf("watches of Rollouts: %v", watches)
	}
	checkAll()
	checkAll()
	if requests := c.server.Requests(); len(requests) > 0 {
		t.Errorf("%d requests while they wait, the first %v", len(requests), requests[0])
	}
}

// The summary of a Rollout does not keep the Rollout's JSON in memory.
func TestMemoryOfAThousandRollouts(t *testing.T) {
	var kept []Rollout
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for i := range 1000 {
		ro := canary(fmt.Sprintf("r%d", i), 1)
		ro.Annotations = map[string]string{"ballast": strings.Repeat("x", 50<<10)}
		ro.Spec.Strategy.Canary.Steps = append(ro.Spec.Strategy.Canary.Steps, check(`{"barrier": "half", "x": "`+strings.Repeat("y", 50<<10)+`"}`))
		kept = append(kept, *read(t, ro))
	}
	if each := (int64(heap()) - int64(before)) / int64(len(kept)); each > 2<<10 {
		t.Errorf("%d bytes each, want 2 KiB at most", each)
	}
	runtime.KeepAlive(kept)
}
