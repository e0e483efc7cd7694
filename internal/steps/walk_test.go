package steps

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	walks     = flag.Int("walks", 150, "random walks of TestRandomWalks")
	firstWalk = flag.Uint64("first-walk", 0, "seed of the first walk; with -v a walk says what it does")
)

// TestRandomWalks lets a controller, its users and an outside system act in random order,
// and checks for what must not happen in any order. Time is that of synctest.
func TestRandomWalks(t *testing.T) {
	for seed := *firstWalk; seed < *firstWalk+uint64(*walks); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWalk(t, seed).walk() })
		})
	}
}

// maxSkew is how far the clock of a process may be from that of the outside system.
const maxSkew = 10 * time.Second

// job is work of the outside system.
type job struct {
	key              string
	canary, starts   int
	ends             time.Time
	phase            Phase // the phase in which it ends
	cancelled        time.Time
	undone, excepted bool
	// failed is true for the work of a failed step, which is cancelled but not undone.
	failed bool
}

// maxUncounted is how many Starts a process may have made without a trace in the status.
const maxUncounted = 2

func (j *job) hasEnded(at time.Time) bool { return !j.cancelled.IsZero() || !at.Before(j.ends) }

// hasSucceeded tells whether work has succeeded and has not been undone.
func (j *job) hasSucceeded(at time.Time) bool {
	return j.cancelled.IsZero() && !at.Before(j.ends) && j.phase == Successful && !j.undone
}

// walk is a controller, a Rollout with one plugin step, its plugin and an outside system.
type walk struct {
	t      *testing.T
	random *rand.Rand

	mu     sync.Mutex
	chaos  *rand.Rand // randomness of the outside system
	jobs   map[string]*job
	broken bool // the outside system may be slow, refuse requests, and not answer

	config   string
	settings Settings
	// A Start may be made again, or looks for what an earlier one has done.
	repeatable, finds bool
	sent              map[string]bool // the keys whose Starts may have been carried out
	seconds           map[int64]bool  // in which the Progressing condition has changed
	events            *logbook
	plugin            *Plugin
	process           int

	ro                              *v1alpha1.Rollout
	canary, revised                 int // revised is the last canary of the previous version
	storedIn                        int // storedIn is the canary of the last Run that was stored
	called                          bool
	lost                            bool // the answer to the step's first Run was lost: the controller has nothing to abort
	due                             time.Time
	skew                            time.Duration // of the clock of the current controller and plugin
	pluginAt                        int32
	paused, abort, promoted, outage bool
	restartedIn, unansweredIn       bool
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{t: t, random: rand.New(rand.NewPCG(seed, 1)), chaos: rand.New(rand.NewPCG(seed, 2)), jobs: map[string]*job{}, sent: map[string]bool{}, seconds: map[int64]bool{}, events: &logbook{}, broken: true}
	w.pluginAt = int32(w.random.IntN(2))
	w.settings = Settings{
		Retries:       int32(w.random.IntN(3)),
		OnUnknown:     []OnUnknown{"", OnUnknownFail}[w.random.IntN(2)],
		FailurePolicy: []FailurePolicy{"", FailurePolicyIgnore}[w.random.IntN(2)],
		Timeout:       metav1.Duration{Duration: []time.Duration{0, 2 * time.Minute, 9 * time.Minute}[w.random.IntN(3)]},
		Interval:      metav1.Duration{Duration: []time.Duration{0, time.Minute, 3 * time.Minute}[w.random.IntN(3)]},
	}
	w.repeatable, w.finds = w.chance(25), w.chance(25)
	config, err := json.Marshal(w.settings)
	if err != nil {
		t.Fatal(err)
	}
	w.config = string(config)
	w.ro = &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "u-1", Annotations: map[string]string{revisionAnnotation: "1"}}}
	w.ro.Status.CurrentStepHash = "steps"
	w.revise()
	w.restart()
	w.logf("plugin at %d, %s", w.pluginAt, w.config)
	return w
}

func (w *walk) logf(format string, args ...any) {
	w.t.Logf(time.Now().Format("15:04:05.0 ")+format, args...)
}

func (w *walk) chance(percent int) bool { return w.random.IntN(100) < percent }

// restart starts a new process of the plugin. Operations under way in the old one are cut
// off.
func (w *walk) restart() {
	w.mu.Lock()
	w.process++
	current := w.currentKey()
	for key, j := range w.jobs {
		if key != current && (current != "" || j.canary != w.canary) {
			j.excepted = true // its clean-up may be under way, and ends with the process
		}
	}
	process := w.process
	w.restartedIn = true
	w.mu.Unlock()
	w.skew = time.Duration(w.random.IntN(2*int(maxSkew)) - int(maxSkew))
	skew := w.skew
	w.plugin = New(Options{Kind: &walkKind{w, process}, Events: w.events, Logger: hclog.NewNullLogger()})
	w.plugin.now = func() time.Time { return time.Now().Add(skew) }
}

// now is the clock of the controller.
func (w *walk) now() time.Time { return time.Now().Add(w.skew) }

func (w *walk) currentKey() string {
	for _, stored := range w.ro.Status.Canary.StepPluginStatuses {
		if s, err := readStatus(stored.Status); stored.Operation == v1alpha1.StepPluginOperationRun && err == nil && s != nil {
			return s.workKey(w.ro)
		}
	}
	return ""
}

// revise makes a new version. Argo Rollouts forgets what its steps were doing, without a
// call.
func (w *walk) revise() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		j.excepted = true
	}
	w.revised = w.canary
	w.newCanary()
	w.ro.Annotations[revisionAnnotation] = fmt.Sprint(w.canary)
	w.ro.Status.CurrentPodHash = fmt.Sprint("hash-", w.canary)
	w.ro.Status.Canary.StepPluginStatuses = nil
	w.ro.Status.CurrentStepIndex = new(int32)
	w.abort, w.promoted = false, false
	w.progress(corev1.ConditionTrue, "NewReplicaSetCreated")
	w.due = time.Now()
}

func (w *walk) newCanary() {
	w.canary++
	w.restartedIn, w.unansweredIn, w.lost = false, false, false
}

func (w *walk) progress(status corev1.ConditionStatus, reason string) {
	if len(w.ro.Status.Conditions) == 0 {
		w.ro.Status.Conditions = []v1alpha1.RolloutCondition{{Type: v1alpha1.RolloutProgressing}}
	}
	w.seconds[w.now().Unix()] = true
	progress(w.ro, w.now().Truncate(time.Second), status, reason)
}

func (w *walk) reason() string { return w.ro.Status.Conditions[0].Reason }

// walk acts in random order; then the outside system has no more faults, and time passes.
func (w *walk) walk() {
	defer time.Sleep(time.Hour) // clean-ups end
	for range 60 {
		w.act()
		if w.t.Failed() {
			break
		}
	}
	w.mu.Lock()
	w.broken = false
	w.mu.Unlock()
	w.paused = false
	w.logf("the outside is sound")
	w.reconcile(true)
	for end := time.Now().Add(time.Hour); time.Now().Before(end) && !w.t.Failed(); time.Sleep(5 * time.Second) {
		if !w.due.IsZero() && !time.Now().Before(w.due) {
			w.reconcile(true)
		}
	}
	w.atTheEnd()
}

func (w *walk) act() {
	switch n := w.random.IntN(100); {
	case n < 60: // the controller does what is due
		if w.due.IsZero() {
			time.Sleep(time.Duration(w.random.IntN(60)) * time.Second)
			return
		}
		time.Sleep(time.Until(w.due))
		w.reconcile(!w.chance(8))
	case n < 66:
		w.logf("killed")
		w.restart()
		w.due = time.Now()
	case n < 70:
		if w.abort || w.promoted || !w.paused && w.mayBeginAnew() {
			return
		}
		w.paused = !w.paused
		w.logf("paused: %t", w.paused)
		w.reconcile(true)
		if w.paused {
			time.Sleep(time.Duration(w.random.IntN(40)) * time.Minute)
		}
	case n < 76:
		if w.abort || w.promoted || w.paused || w.lost {
			return
		}
		w.logf("aborted")
		w.abort = true
		w.reconcile(true)
		time.Sleep(time.Second) // a retry within a second has the same condition
	case n < 88:
		if !w.abort {
			return
		}
		w.logf("retried")
		w.abort = false
		w.mu.Lock()
		w.newCanary()
		w.mu.Unlock()
		w.reconcile(true)
	case n < 90:
		if w.abort || w.paused || w.lost {
			return
		}
		w.logf("promoted in full")
		w.promoted = true
		w.reconcile(true)
	case n < 93:
		w.logf("a new version")
		w.paused = false
		w.revise()
		w.reconcile(true)
	case n < 95:
		w.logf("the controller is away")
		time.Sleep(time.Duration(w.random.IntN(20)) * time.Minute)
		w.restart()
		w.outage = true
		w.reconcile(true)
		w.outage = false
	default: // new pods cause a reconcile at any time
		w.progressIfTold()
		w.reconcile(true)
	}
}

// mayBeginAnew tells whether the step has stored no status for this canary yet. If the
// Rollout's conditions change before it does, a step whose first answer is lost gets
// another key, and another process does not see that a status is of the previous canary.
func (w *walk) mayBeginAnew() bool {
	run := statusOf(w.ro.Status.Canary.StepPluginStatuses, w.pluginAt, v1alpha1.StepPluginOperationRun)
	return *w.ro.Status.CurrentStepIndex == w.pluginAt && (run == nil || w.storedIn != w.canary)
}

func (w *walk) progressIfTold() {
	if !w.mayBeginAnew() && !w.abort && !w.paused && w.reason() != "ProgressDeadlineExceeded" {
		w.progress(corev1.ConditionTrue, "ReplicaSetUpdated")
	}
}

// reconcile does what the controller does with a Rollout, and stores the new status or
// fails to (rollout/stepplugin.go, sync.go and canary.go of argo-rollouts v1.10.1).
func (w *walk) reconcile(stores bool) {
	w.due = time.Time{}
	switch aborted := w.reason() == "RolloutAborted"; {
	case !w.abort && aborted:
		for w.seconds[w.now().Unix()] { // a clock went back to the second of another canary, which has its key
			time.Sleep(time.Second)
		}
		w.progress(corev1.ConditionUnknown, "RolloutRetry")
	case w.paused != (w.reason() == "RolloutPaused") && !aborted:
		w.progress(corev1.ConditionUnknown, map[bool]string{true: "RolloutPaused", false: "RolloutResumed"}[w.paused])
	}
	w.called = false
	local := slices.Clone(w.ro.Status.Canary.StepPluginStatuses)
	fails := w.steps(&local)
	if !stores {
		w.logf("the status is not stored")
		w.lost = w.lost || w.called && w.mayBeginAnew()
		w.due = time.Now().Add(time.Duration(w.random.IntN(10)) * time.Second)
		return
	}
	if w.called {
		w.storedIn, w.lost = w.canary, false
	}
	if w.ro.Status.Canary.StepPluginStatuses = local; fails && !w.abort {
		w.logf("the step has failed")
		w.abort, w.due = true, time.Now()
	}
	switch index := w.ro.Status.CurrentStepIndex; {
	case w.abort:
		*index = 0
		w.progress(corev1.ConditionFalse, "RolloutAborted")
	case w.promoted, w.paused:
	case *index < w.pluginAt || *index == w.pluginAt && isCompleted(local, *index):
		*index++
		w.progress(corev1.ConditionTrue, "ReplicaSetUpdated")
		w.due = time.Now()
	case *index == w.pluginAt && w.reason() != "ProgressDeadlineExceeded" && w.now().Sub(w.ro.Status.Conditions[0].LastUpdateTime.Time) > 10*time.Minute:
		w.progress(corev1.ConditionFalse, "ProgressDeadlineExceeded")
		w.t.Errorf("the step is running after the progress deadline (after an outage of the controller: %t)", w.outage)
	}
}

func isCompleted(statuses []v1alpha1.StepPluginStatus, index int32) bool {
	run := statusOf(statuses, index, v1alpha1.StepPluginOperationRun)
	if run == nil {
		return false
	}
	isRunning := statusOf(statuses, index, v1alpha1.StepPluginOperationAbort) == nil && statusOf(statuses, index, v1alpha1.StepPluginOperationTerminate) == nil
	return run.Phase != v1alpha1.StepPluginPhaseRunning || !isRunning
}

func statusOf(statuses []v1alpha1.StepPluginStatus, index int32, operation v1alpha1.StepPluginOperation) *v1alpha1.StepPluginStatus {
	for i := range statuses {
		if statuses[i].Index == index && statuses[i].Operation == operation {
			return &statuses[i]
		}
	}
	return nil
}

func store(statuses *[]v1alpha1.StepPluginStatus, s v1alpha1.StepPluginStatus) {
	if old := statusOf(*statuses, s.Index, s.Operation); old != nil {
		*old = s
		return
	}
	*statuses = append(*statuses, s)
}

// steps makes the calls about plugin steps, and tells whether one has failed.
func (w *walk) steps(local *[]v1alpha1.StepPluginStatus) (failed bool) {
	stored := w.ro.Status.Canary.StepPluginStatuses
	run := statusOf(stored, w.pluginAt, v1alpha1.StepPluginOperationRun)
	if w.abort || w.promoted {
		operation, call := v1alpha1.StepPluginOperationAbort, w.plugin.Abort
		if !w.abort {
			operation, call = v1alpha1.StepPluginOperationTerminate, w.plugin.Terminate
		}
		isRunning := run != nil && run.Phase == v1alpha1.StepPluginPhaseRunning
		hasSucceeded := run != nil && run.Phase == v1alpha1.StepPluginPhaseSuccessful
		if !isRunning && (!hasSucceeded || !w.abort) || statusOf(stored, w.pluginAt, operation) != nil {
			return false
		}
		result := w.call(string(operation), call, run.Status)
		store(local, v1alpha1.StepPluginStatus{Index: w.pluginAt, Name: "acme/step", Operation: operation, Phase: v1alpha1.StepPluginPhase(result.Phase)})
		return false
	}
	if index := *w.ro.Status.CurrentStepIndex; index == 0 && len(stored) > 0 && (w.pluginAt != 0 || isCompleted(stored, 0)) {
		*local = nil
	}
	if *w.ro.Status.CurrentStepIndex != w.pluginAt || w.paused || w.reason() == "ProgressDeadlineExceeded" {
		return false
	}
	if run == nil {
		run = &v1alpha1.StepPluginStatus{Index: w.pluginAt, Name: "acme/step", Operation: v1alpha1.StepPluginOperationRun, Phase: v1alpha1.StepPluginPhaseRunning}
	} else {
		run = run.DeepCopy()
	}
	if run.Phase != v1alpha1.StepPluginPhaseRunning {
		w.due = time.Now()
		return false
	}
	var backoff time.Duration
	if run.Executions > 0 {
		var err error
		if backoff, err = run.Backoff.Duration(); err != nil {
			w.t.Fatal(err)
		}
	}
	if run.Executions == 0 || !run.UpdatedAt.Add(backoff).After(w.now()) {
		result := w.call("Run", w.plugin.Run, run.Status)
		w.judge(result)
		w.called = true
		now := metav1.NewTime(w.now())
		run.UpdatedAt, run.Status, run.Phase = &now, result.Status, v1alpha1.StepPluginPhase(result.Phase)
		run.Executions++
		run.Backoff = ""
		if backoff = result.RequeueAfter; result.Phase == types.PhaseRunning {
			run.Backoff = v1alpha1.DurationString(backoff.String())
		}
	}
	store(local, *run)
	if run.Phase == v1alpha1.StepPluginPhaseRunning {
		w.due = run.UpdatedAt.Add(backoff + 5*time.Second - w.skew)
	}
	return run.Phase == v1alpha1.StepPluginPhaseFailed
}

func (w *walk) call(name string, call func(*v1alpha1.Rollout, *types.RpcStepContext) (types.RpcStepResult, types.RpcError), stored json.RawMessage) types.RpcStepResult {
	begun := time.Now()
	ro := w.ro.DeepCopy()
	if *ro.Status.CurrentStepIndex == 0 {
		ro.Status.CurrentStepIndex = nil // gob makes a pointer to 0 nil
	}
	result, err := call(ro, &types.RpcStepContext{PluginName: "acme/step", Config: json.RawMessage(w.config), Status: stored})
	w.logf("%s: %s %s (%s) %s", name, result.Phase, result.Message, result.RequeueAfter, result.Status)
	if took := time.Since(begun); took > 5*time.Second {
		w.t.Errorf("%s has held a worker for %s", name, took)
	}
	if err.HasError() || result.Phase == types.PhaseError || len(result.Status) > statusLimit {
		w.t.Errorf("%s: %+v, %+v", name, result, err)
	}
	return result
}

// judge checks the answer to a Run.
func (w *walk) judge(result types.RpcStepResult) {
	s, err := readStatus(result.Status)
	if err != nil {
		w.t.Fatal(err)
	}
	if result.Phase == types.PhaseRunning {
		if result.RequeueAfter < minInterval {
			w.t.Errorf("asked to come back in %s", result.RequeueAfter)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if j := w.jobs[s.workKey(w.ro)]; j != nil && (s.Stage == stageFailing || s.Stage == stageRetrying) {
			j.failed = true
		}
		return
	}
	if result.Phase == types.PhaseFailed && w.settings.FailurePolicy == FailurePolicyIgnore {
		w.t.Errorf("a failure that is to be ignored: %s", result.Message)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.settings.OnUnknown == OnUnknownFail && strings.Contains(result.Message, "not known whether") && !w.restartedIn && !w.unansweredIn {
		w.t.Errorf("nothing was lost: %s", result.Message)
	}
	j := w.jobs[s.workKey(w.ro)]
	if result.Phase != types.PhaseSuccessful || strings.Contains(result.Message, "failed, and ignored") {
		if j != nil {
			j.failed = true
		}
		return
	}
	switch {
	case j == nil:
		w.t.Errorf("a step has succeeded whose work was never started")
	case j.canary != w.canary:
		w.t.Errorf("a step has succeeded by the work of canary %d, in canary %d", j.canary, w.canary)
	case !j.hasSucceeded(time.Now()):
		w.t.Errorf("a step has succeeded whose work has not: %+v", j)
	}
}

// atTheEnd checks what is left after the outside system has had no faults for an hour.
func (w *walk) atTheEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	current := statusOf(w.ro.Status.Canary.StepPluginStatuses, w.pluginAt, v1alpha1.StepPluginOperationRun)
	if !w.t.Failed() && !w.abort && !w.promoted && (current == nil || current.Phase == v1alpha1.StepPluginPhaseRunning) {
		w.t.Errorf("the step has not ended: %+v", current)
	}
	key := w.currentKey()
	for _, j := range w.jobs {
		if j.excepted || w.events.has(reasonLeft, "the run "+j.key[:6]) {
			continue
		}
		isLeft := j.hasSucceeded(now) && !j.failed && (j.canary != w.canary || w.abort) || !j.hasEnded(now)
		if isLeft && (j.key != key || !w.promoted || w.abort) {
			w.t.Errorf("work of canary %d is left, in canary %d (aborted: %t): %+v", j.canary, w.canary, w.abort, j)
		}
	}
}

// walkKind is a kind whose steps use the outside system of a walk.
type walkKind struct {
	walk    *walk
	process int
}

func (k *walkKind) Name() string { return "walk" }

func (k *walkKind) Parse(source Source) (Step, error) {
	return &walkStep{walkKind: k, settings: source.Settings}, nil
}

type walkStep struct {
	*walkKind
	settings Settings
}

func (s *walkStep) Repeatable() bool   { return s.walk.repeatable }
func (s *walkStep) Finds() bool        { return s.walk.finds }
func (s *walkStep) Left(w Work) string { return "the run " + w.Key[:6] }

var errWalk = errors.New("503")

// reach makes a request, and tells whether the outside system has received it.
func (s *walkStep) reach(ctx context.Context, mayHang bool) (received bool, err error) {
	s.walk.mu.Lock()
	broken := s.walk.broken
	delay, fault := time.Duration(0), 100
	if broken {
		delay = []time.Duration{0, 0, 0, 300 * time.Millisecond, 2 * time.Second, 15 * time.Second, time.Minute}[s.walk.chaos.IntN(7)]
		fault = s.walk.chaos.IntN(100)
	}
	s.walk.mu.Unlock()
	ignores := fault >= 97 && broken && mayHang // that its context has ended
	switch {
	case ignores:
		s.walk.mu.Lock()
		s.walk.unansweredIn = true
		s.walk.mu.Unlock()
		time.Sleep(delay)
	default:
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			err = &Error{Outcome: MayBeDone, Cause: ctx.Err()}
		}
	}
	s.walk.mu.Lock()
	defer s.walk.mu.Unlock()
	if s.process != s.walk.process {
		return false, errors.New("the process was killed")
	}
	if err != nil {
		s.walk.unansweredIn = true
		return fault%2 == 0, err
	}
	switch {
	case fault < 15:
		return false, &Error{Final: fault < 2, Cause: errWalk}
	case fault < 22:
		s.walk.unansweredIn = true
		return fault%2 == 0, &Error{Outcome: MayBeDone, Cause: errWalk}
	}
	return true, nil
}

func (s *walkStep) Start(ctx context.Context, w Work) (Progress, error) {
	s.walk.mu.Lock()
	canary := s.walk.canary
	s.walk.mu.Unlock()
	received, err := s.reach(ctx, false)
	s.walk.mu.Lock()
	defer s.walk.mu.Unlock()
	if j := s.walk.jobs[w.Key]; s.walk.finds && err == nil && j != nil {
		s.walk.logf("found %s", w.Key[:6])
		return Progress{Phase: Running, Message: "it was found"}, nil
	}
	if w.LookOnly {
		return Progress{}, errors.New("it was not found")
	}
	s.walk.sent[w.Key] = s.walk.sent[w.Key] || received || OutcomeOf(err) != NotDone
	if received {
		j := s.walk.jobs[w.Key]
		if j == nil {
			j = &job{
				key: w.Key, canary: canary, excepted: canary <= s.walk.revised, ends: time.Now().Add(time.Duration(s.walk.chaos.IntN(400)) * time.Second),
				phase: []Phase{Successful, Successful, Failed}[s.walk.chaos.IntN(3)],
			}
			s.walk.jobs[w.Key] = j
		}
		j.starts++
		switch limit := maxSends; {
		case s.walk.repeatable:
		case s.settings.OnUnknown == OnUnknownFail && j.starts > 1:
			s.walk.t.Errorf("work was started twice under key %s (onUnknown: Fail)", w.Key)
		case s.walk.restartedIn:
			limit += maxUncounted
			fallthrough
		case true:
			if j.starts > limit {
				s.walk.t.Errorf("work was started %d times under key %s", j.starts, w.Key)
			}
		}
		if j.starts > 1 && w.Earlier == NotDone && !s.walk.restartedIn && canary == s.walk.canary {
			s.walk.t.Errorf("a second Start was not told of the first")
		}
		if !j.cancelled.IsZero() {
			s.walk.t.Errorf("work was started again that was cancelled, under key %s", w.Key)
		}
	}
	s.walk.logf("start %s: received %t, %v", w.Key[:6], received, err)
	if received && err == nil && s.walk.broken && s.walk.chaos.IntN(100) < 5 {
		s.walk.jobs[w.Key].failed = true
		return Progress{Phase: Failed, Message: "its answer is of no use", Outcome: Done}, nil
	}
	return Progress{Phase: Running, Message: "it runs"}, err
}

func (s *walkStep) Poll(ctx context.Context, w Work) (Progress, error) {
	_, err := s.reach(ctx, true)
	s.walk.mu.Lock()
	defer s.walk.mu.Unlock()
	j, now := s.walk.jobs[w.Key], time.Now()
	if err != nil {
		return Progress{}, err
	}
	switch {
	case j == nil:
		return Progress{Phase: Failed, Message: "there is none"}, nil
	case !j.cancelled.IsZero():
		return Progress{Phase: Failed, Message: "it was cancelled"}, nil
	case now.Before(j.ends):
		return Progress{Phase: Running, Message: "it runs"}, nil
	}
	return Progress{Phase: j.phase, Message: "it has ended"}, nil
}

func (s *walkStep) Cancel(ctx context.Context, w Work) error {
	received, err := s.reach(ctx, true)
	s.walk.mu.Lock()
	defer s.walk.mu.Unlock()
	if !s.walk.sent[w.Key] && s.walk.process == 1 {
		s.walk.t.Errorf("a Cancel of what was surely not started, under key %s", w.Key)
	}
	j := s.walk.jobs[w.Key]
	switch {
	case !received || j == nil:
	case !j.hasEnded(time.Now()):
		j.cancelled = time.Now()
	case w.Earlier != Done || time.Since(j.ends) < time.Minute:
		j.excepted = true // there was no look, or it has ended after the last one
	}
	s.walk.logf("cancel %s: received %t, %v", w.Key[:6], received, err)
	return err
}

func (s *walkStep) Undo(ctx context.Context, w Work) error {
	received, err := s.reach(ctx, true)
	s.walk.mu.Lock()
	defer s.walk.mu.Unlock()
	if j := s.walk.jobs[w.Key]; received && j != nil {
		j.undone = true
	}
	s.walk.logf("undo %s: received %t, %v", w.Key[:6], received, err)
	return err
}
