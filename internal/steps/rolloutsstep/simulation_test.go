package rolloutsstep

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// world is a set of Rollouts whose canaries began at the same time, and what the
// controller does with them. Of barriers it knows only what decide says.
type world struct {
	t        *testing.T
	random   *rand.Rand
	seconds  int
	rollouts []*member
	log      []string
	// until makes each Rollout that of another region; empty for the Rollouts of one cluster.
	until Until
}

// member is one of a world's Rollouts.
type member struct {
	name  string
	steps []v1alpha1.CanaryStep
	// index is the current step.
	index                int
	failed, done         bool
	failedAt             int
	keepsPods            bool
	podsFrom, retriedAt  int
	lastBarrier          int // -1 if there is none
	waits                bool
	passedBeforeTheFault bool
	// unchanged is true as long as it has the version before.
	unchanged bool
}

func newWorld(t *testing.T, seed uint64, until Until) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0)), until: until}
	barriers := w.random.IntN(4)
	for i := range 1 + w.random.IntN(6) {
		m := &member{name: fmt.Sprintf("demo/r%d", i), lastBarrier: -1, keepsPods: w.random.IntN(2) == 0}
		has := barriers
		if w.random.IntN(4) == 0 {
			has = w.random.IntN(barriers + 1) // fewer than others, or none
		}
		for range has {
			for range w.random.IntN(3) {
				m.steps = append(m.steps, weight(int32(len(m.steps))))
			}
			m.lastBarrier = len(m.steps)
			m.steps = append(m.steps, check(""))
		}
		for range w.random.IntN(3) {
			m.steps = append(m.steps, weight(int32(len(m.steps))))
		}
		w.rollouts = append(w.rollouts, m)
	}
	return w
}

func (w *world) tell(m *member, text string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%3d %s %s", w.seconds, m.name, fmt.Sprintf(text, args...)))
}

// rollout returns a member as the API server has it.
func (w *world) rollout(m *member) *v1alpha1.Rollout {
	ro := canary(strings.TrimPrefix(m.name, "demo/"), int32(m.index), withSteps(m.steps...))
	runsApp("v2")(ro)
	switch {
	case m.unchanged:
		runsApp("v1")(ro)
		healthy(ro)
	case m.failed:
		aborted(m.failedAt)(ro)
	case m.done:
		healthy(ro)
	}
	return ro
}

// decide makes the decision for a member at a barrier.
func (w *world) decide(m *member, barrier Barrier) steps.Progress {
	since := at(max(m.podsFrom, m.retriedAt)).Time
	if w.until == "" {
		s := Snapshot{Barrier: barrier, Since: since}
		for _, other := range w.rollouts {
			if other != m {
				s.Others = append(s.Others, Other{Name: other.name, Rollout: read(w.t, w.rollout(other))})
			}
		}
		return decide(s)
	}
	s := RegionSnapshot{Barrier: barrier, Since: since, Version: "app v2", Until: w.until, Own: m.name}
	for _, other := range w.rollouts {
		region := Region{Name: other.name}
		if other != m {
			region.Others = []RegionRollout{regionRollout(w.t, w.rollout(other))}
		}
		s.Regions = append(s.Regions, region)
	}
	return decideRegions(s)
}

// advance makes one reconciliation. It returns whether anything has changed.
func (w *world) advance(m *member) bool {
	w.seconds++
	switch {
	case m.failed || m.done:
		return false
	case m.unchanged:
		if m.unchanged = w.random.IntN(4) > 0; !m.unchanged {
			m.podsFrom = w.seconds
			w.tell(m, "is changed")
		}
		return true
	case m.index == len(m.steps):
		m.done = true
		w.tell(m, "is Healthy")
		return true
	case m.steps[m.index].Plugin == nil:
		m.index++
		w.tell(m, "is at step %d", m.index)
		return true
	}
	barrier, err := barrierOf(w.rollout(m), int32(m.index), naming{})
	if err != nil {
		w.t.Fatal(err)
	}
	progress := w.decide(m, barrier)
	m.waits = progress.Phase == steps.Running
	switch progress.Phase {
	case steps.Running:
		return false
	case steps.Successful:
		m.index++
	default:
		w.fail(m)
	}
	w.tell(m, "%s: %s", progress.Phase, progress.Message)
	return true
}

func (w *world) fail(m *member) {
	w.seconds++
	m.failed, m.failedAt, m.index, m.waits = true, w.seconds, 0, false
	w.tell(m, "fails")
}

func (w *world) retry(m *member) {
	w.seconds++
	m.failed, m.retriedAt = false, w.seconds
	if !m.keepsPods {
		w.seconds++
		m.podsFrom = w.seconds
	}
	w.tell(m, "is retried")
}

// settle reconciles members in random order until nothing changes any more.
func (w *world) settle() {
	for quiet := 0; quiet < 2; quiet++ {
		for _, i := range w.random.Perm(len(w.rollouts)) {
			if w.advance(w.rollouts[i]) {
				quiet = 0
			}
		}
	}
}

func (w *world) some(steps int) {
	for range steps {
		w.advance(w.rollouts[w.random.IntN(len(w.rollouts))])
	}
}

func (w *world) names(which func(*member) bool) []string {
	var names []string
	for _, m := range w.rollouts {
		if which(m) {
			names = append(names, m.name)
		}
	}
	return names
}

func (w *world) fatal(text string, names []string) {
	w.t.Fatalf("%s: %v\n%s", text, names, strings.Join(w.log, "\n"))
}

func (w *world) mustBeHealthy() {
	if names := w.names(func(m *member) bool { return !m.done }); len(names) > 0 {
		w.fatal("did not become Healthy", names)
	}
}

const worlds = 300

// modes are the Rollouts of one cluster, those of regions that meet, and those of regions that
// go on one after another.
var modes = []Until{"", UntilBarrier, UntilPromoted}

func inEachMode(t *testing.T, of []Until, test func(t *testing.T, until Until)) {
	for _, until := range of {
		t.Run(cmp.Or(string(until), "one cluster"), func(t *testing.T) { test(t, until) })
	}
}

func TestCanariesThatWaitForOneAnotherComplete(t *testing.T) {
	inEachMode(t, modes, func(t *testing.T, until Until) {
		for seed := range uint64(worlds) {
			w := newWorld(t, seed, until)
			for _, m := range w.rollouts {
				// In one cluster the versions of others are not looked at.
				m.unchanged = until != "" && w.random.IntN(2) == 0
			}
			w.settle()
			w.mustBeHealthy()
		}
	})
}

// With until: Promoted no Rollout passes a barrier before those of former regions are Healthy.
func TestRegionsBecomeHealthyInTheirOrder(t *testing.T) {
	waited := 0
	for seed := range uint64(worlds) {
		w := newWorld(t, seed, UntilPromoted)
		for range 500 {
			i := w.random.IntN(len(w.rollouts))
			m := w.rollouts[i]
			before := m.index
			isBarrier := !m.done && before < len(m.steps) && m.steps[before].Plugin != nil
			w.advance(m)
			former := slices.ContainsFunc(w.rollouts[:i], func(other *member) bool { return !other.done })
			switch passed := m.index > before; {
			case isBarrier && passed && former:
				w.fatal("passed a barrier before a former region was Healthy", []string{m.name})
			case isBarrier && !passed && !former:
				w.fatal("waits for no former region", []string{m.name})
			case isBarrier && !passed:
				waited++
			}
		}
	}
	if waited < worlds {
		t.Errorf("%d waited: too few to have shown anything", waited)
	}
}

// After a fault at any time, all canaries with a barrier ahead fail; those that have
// passed their last barrier complete, and none is left waiting. Retried one by one, in
// any order, all complete, and none fails again because of earlier failures.
func TestCanariesRollBackTogetherAndAreRetriedOneByOne(t *testing.T) {
	inEachMode(t, modes, rollBackTogetherAndRetryOneByOne)
}

func rollBackTogetherAndRetryOneByOne(t *testing.T, until Until) {
	together, completed := 0, 0
	for seed := range uint64(worlds) {
		w := newWorld(t, seed, until)
		w.some(w.random.IntN(40))
		left := slices.DeleteFunc(slices.Clone(w.rollouts), func(m *member) bool { return m.done })
		if len(left) == 0 {
			continue
		}
		for _, m := range w.rollouts {
			m.passedBeforeTheFault = m.index > m.lastBarrier
		}
		first := left[w.random.IntN(len(left))]
		w.fail(first)
		w.settle()
		for _, m := range w.rollouts {
			switch {
			case m == first:
			case m.passedBeforeTheFault && !m.done:
				w.fatal("had passed its last barrier, and is not Healthy", []string{m.name})
			case !m.passedBeforeTheFault && !m.failed:
				w.fatal("had a barrier to pass, and did not fail", []string{m.name})
			case m.failed:
				together++
			default:
				completed++
			}
		}
		// Nothing changes until a Rollout is retried.
		w.seconds += 1000
		retried := slices.DeleteFunc(slices.Clone(w.rollouts), func(m *member) bool { return !m.failed })
		w.random.Shuffle(len(retried), func(i, j int) { retried[i], retried[j] = retried[j], retried[i] })
		for i, m := range retried {
			w.retry(m)
			w.some(w.random.IntN(30))
			for _, again := range retried[:i+1] {
				if again.failed {
					w.fatal("failed again", []string{again.name})
				}
			}
		}
		w.settle()
		w.mustBeHealthy()
	}
	if together < worlds/10 || completed < worlds/10 {
		t.Errorf("%d failed with others and %d completed: too few to have shown anything", together, completed)
	}
}

// A canary that begins after a failure waits for the failed Rollout, by name.
func TestALaterCanaryWaitsForAnEarlierFailure(t *testing.T) {
	inEachMode(t, []Until{"", UntilBarrier}, waitForAnEarlierFailure)
}

func waitForAnEarlierFailure(t *testing.T, until Until) {
	for seed := range uint64(worlds / 10) {
		w := newWorld(t, seed, until)
		first := w.rollouts[0]
		w.fail(first)
		for _, m := range w.rollouts[1:] {
			m.podsFrom = w.seconds + 1
		}
		w.seconds += 10
		w.settle()
		for _, m := range w.rollouts[1:] {
			if m.failed || !m.done && !m.waits || m.done && m.lastBarrier >= 0 {
				w.fatal("does not wait", []string{m.name})
			}
		}
		w.retry(first)
		w.settle()
		w.mustBeHealthy()
	}
}
