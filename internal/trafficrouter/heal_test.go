package trafficrouter

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"
)

var (
	app    = types.NamespacedName{Namespace: "demo", Name: "app"}
	object = Ref{"Object", types.NamespacedName{Namespace: "demo", Name: "object"}}
)

type keeper = Keeper[int]

// run calls f with a running Keeper in a bubble of its own time.
func run(t *testing.T, repair Repair[int], f func(k *keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(repair, hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		f(k)
		cancel()
		<-done
	})
}

// An object that is changed all the time is repaired at once, then ever less
// often, up to once a minute.
func TestRepairsBackOff(t *testing.T) {
	repairs := make(chan time.Time, 10000) // one for each change, should nothing back off
	run(t, func(context.Context, types.NamespacedName, Ref, int) Outcome {
		repairs <- time.Now()
		return Repaired
	}, func(k *keeper) {
		repairedSince := func(began time.Time) (at []int) {
			synctest.Wait()
			for len(repairs) > 0 {
				at = append(at, int((<-repairs).Sub(began).Round(time.Second)/time.Second))
			}
			return at
		}
		began := time.Now()
		k.Keep(app, 1, object)
		for time.Since(began) < 245*time.Second {
			k.Changed(object)
			time.Sleep(100 * time.Millisecond)
		}
		if got, want := repairedSince(began), []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}; !slices.Equal(got, want) {
			t.Errorf("repairs at seconds %v, want %v", got, want)
		}
		time.Sleep(calm + mostBackoff)
		repairedSince(began) // the last change, at the end of its backoff
		began = time.Now()
		k.Changed(object)
		if got := repairedSince(began); !slices.Equal(got, []int{0}) {
			t.Errorf("after a calm, repairs at seconds %v, want one at once", got)
		}
	})
}

func TestAFailedRepairIsTriedAgainByItself(t *testing.T) {
	var attempts atomic.Int32
	run(t, func(context.Context, types.NamespacedName, Ref, int) Outcome {
		if attempts.Add(1) < 4 {
			return Failed
		}
		return Repaired
	}, func(k *keeper) {
		k.Keep(app, 1, object)
		k.Changed(object)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := attempts.Load(); got != 4 {
			t.Errorf("%d attempts, want 4", got)
		}
	})
}

func TestAPanicIsAFailedRepair(t *testing.T) {
	var attempts atomic.Int32
	run(t, func(context.Context, types.NamespacedName, Ref, int) Outcome {
		if attempts.Add(1) == 1 {
			panic("bug")
		}
		return Repaired
	}, func(k *keeper) {
		k.Keep(app, 1, object)
		k.Changed(object)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := attempts.Load(); got != 2 {
			t.Errorf("%d attempts, want 2", got)
		}
	})
}

func received(decisions <-chan int) (all []int) {
	for decision := range decisions {
		all = append(all, decision)
	}
	return all
}

func TestTheLastDecisionCounts(t *testing.T) {
	decisions := make(chan int, 100)
	run(t, func(_ context.Context, _ types.NamespacedName, _ Ref, decision int) Outcome {
		decisions <- decision
		return Unneeded
	}, func(k *keeper) {
		changed := func() { k.Changed(object); synctest.Wait() }
		changed()
		k.Keep(app, 1, object)
		changed()
		k.Keep(app, 2, object)
		changed()
		k.Keep(app, 3, Ref{"Object", types.NamespacedName{Namespace: "demo", Name: "another"}})
		changed()
		k.Keep(app, 4, object)
		k.Forget(app)
		changed()
		close(decisions)
		if got, want := received(decisions), []int{1, 2}; !slices.Equal(got, want) {
			t.Errorf("decisions %v, want %v", got, want)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.decisions)+len(k.covering) > 0 {
			t.Errorf("kept: %v %v", k.decisions, k.covering)
		}
	})
}

func TestCallsAndRepairsOfOneRolloutTakeTurns(t *testing.T) {
	var inside atomic.Int32
	enter := func() {
		if inside.Add(1) != 1 {
			t.Error("two at once")
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
	}
	run(t, func(context.Context, types.NamespacedName, Ref, int) Outcome {
		enter()
		return Unneeded
	}, func(k *keeper) {
		k.Keep(app, 1, object)
		for range 100 {
			go func() {
				unlock, err := k.Lock(context.Background(), app)
				if err != nil {
					t.Error(err)
					return
				}
				enter()
				unlock()
			}()
			k.Changed(object)
			time.Sleep(time.Millisecond / 2)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		k.locks.mu.Lock()
		defer k.locks.mu.Unlock()
		if len(k.held) > 0 {
			t.Error("a lock that nobody has is kept")
		}
	})
}

// While the repair for a Rollout waits for a call of it, that call leaves the object to
// another Rollout, whose decision then counts.
func TestAnObjectThatPassesToAnotherRolloutMeanwhile(t *testing.T) {
	decisions := make(chan int, 10)
	run(t, func(_ context.Context, _ types.NamespacedName, _ Ref, decision int) Outcome {
		decisions <- decision
		return Unneeded
	}, func(k *keeper) {
		k.Keep(app, 1, object)
		unlock, err := k.Lock(context.Background(), app)
		if err != nil {
			t.Error(err)
			return
		}
		k.Changed(object)
		synctest.Wait()
		k.Forget(app)
		k.Keep(types.NamespacedName{Namespace: "demo", Name: "other"}, 2, object)
		unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		close(decisions)
		if got, want := received(decisions), []int{2}; !slices.Equal(got, want) {
			t.Errorf("repaired for decisions %v, want %v", got, want)
		}
	})
}

func TestACallDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(func(context.Context, types.NamespacedName, Ref, int) Outcome { return Unneeded }, hclog.NewNullLogger())
		defer k.queue.ShutDown()
		unlock, err := k.Lock(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.Lock(ctx, app); err == nil {
			t.Error("a second lock of the same Rollout")
		}
		if other, err := k.Lock(t.Context(), object.NamespacedName); err != nil {
			t.Error("another Rollout waits too")
		} else {
			other()
		}
		unlock()
		again, err := k.Lock(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		again()
	})
}

func TestFingerprint(t *testing.T) {
	zero, one := int32(0), int32(1)
	ro := func(change func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
		ro := &v1alpha1.Rollout{}
		ro.UID, ro.Generation = "u", 3
		ro.Status.CurrentPodHash, ro.Status.StableRS, ro.Status.CurrentStepIndex = "canary", "stable", &zero
		change(ro)
		return ro
	}
	of := fingerprintOf(ro(func(*v1alpha1.Rollout) {}))
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Rollout)
		same   bool
	}{
		"over RPC":       {func(ro *v1alpha1.Rollout) { ro.Status.CurrentStepIndex = nil }, true},
		"reconciled":     {func(ro *v1alpha1.Rollout) { ro.ResourceVersion, ro.Status.Message = "9", "paused" }, true},
		"UID":            {func(ro *v1alpha1.Rollout) { ro.UID = "v" }, false},
		"generation":     {func(ro *v1alpha1.Rollout) { ro.Generation = 4 }, false},
		"abort":          {func(ro *v1alpha1.Rollout) { ro.Status.Abort = true }, false},
		"promoteFull":    {func(ro *v1alpha1.Rollout) { ro.Status.PromoteFull = true }, false},
		"currentPodHash": {func(ro *v1alpha1.Rollout) { ro.Status.CurrentPodHash = "x" }, false},
		"stableRS":       {func(ro *v1alpha1.Rollout) { ro.Status.StableRS = "x" }, false},
		"step":           {func(ro *v1alpha1.Rollout) { ro.Status.CurrentStepIndex = &one }, false},
	} {
		if got := fingerprintOf(ro(tc.change)) == of; got != tc.same {
			t.Errorf("%s: the same is %t, want %t", name, got, tc.same)
		}
	}
}

// An object is repaired for each Rollout whose decision covers it, and still for the
// others when one is forgotten.
func TestObjectsOfSeveralRollouts(t *testing.T) {
	other := types.NamespacedName{Namespace: "demo", Name: "other"}
	repaired := make(chan types.NamespacedName, 10)
	run(t, func(_ context.Context, rollout types.NamespacedName, _ Ref, _ int) Outcome {
		repaired <- rollout
		return Unneeded
	}, func(k *keeper) {
		require := func(when string, want ...types.NamespacedName) {
			t.Helper()
			k.Changed(object)
			synctest.Wait()
			var got []types.NamespacedName
			for len(repaired) > 0 {
				got = append(got, <-repaired)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: repaired for %v, want %v", when, got, want)
			}
		}
		k.Keep(app, 1, object)
		k.Keep(other, 2, object)
		require("with two decisions", app, other)
		k.Forget(other)
		require("after one was forgotten", app)
	})
}

// Objects of a namespace that hangs do not hold up the repairs of another's.
func TestANamespaceThatHangsHasItsShareOfTheRepairs(t *testing.T) {
	repaired := make(chan time.Time, 1)
	run(t, func(ctx context.Context, _ types.NamespacedName, of Ref, _ int) Outcome {
		if of.Namespace == "hangs" {
			<-ctx.Done()
			return Failed
		}
		repaired <- time.Now()
		return Repaired
	}, func(k *keeper) {
		for i := range 100 {
			name := types.NamespacedName{Namespace: "hangs", Name: strconv.Itoa(i)}
			k.Keep(name, 1, Ref{"Object", name})
			k.Changed(Ref{"Object", name})
		}
		synctest.Wait()
		began := time.Now()
		k.Keep(app, 1, object)
		k.Changed(object)
		if took := (<-repaired).Sub(began); took > 0 {
			t.Errorf("repaired after %v", took)
		}
	})
}

// Nothing is kept for a Rollout that is gone.
func TestWhatIsKeptForARolloutGoesWithIt(t *testing.T) {
	other := types.NamespacedName{Namespace: "demo", Name: "other"}
	run(t, func(context.Context, types.NamespacedName, Ref, int) Outcome { return Repaired }, func(k *keeper) {
		k.Keep(app, 1, object)
		k.Keep(other, 1, Ref{"Object", other})
		k.Changed(object)
		k.Changed(Ref{"Object", other})
		synctest.Wait()
		k.Prune(func(rollout types.NamespacedName) bool { return rollout == app })
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.decisions) != 1 || len(k.covering) != 1 || len(k.backoffs) != 1 {
			t.Errorf("kept: %v, %v, %v", k.decisions, k.covering, k.backoffs)
		}
	})
}
