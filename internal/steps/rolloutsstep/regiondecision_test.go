package rolloutsstep

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
)

// inRegion returns a Rollout as a region's watch keeps it.
func inRegion(t testing.TB, ro *v1alpha1.Rollout) *kube.Summary[Rollout] {
	t.Helper()
	text, err := json.Marshal(ro)
	if err != nil {
		t.Fatal(err)
	}
	kept := &kube.Summary[Rollout]{Content: readRegionRollout(text)}
	kept.Namespace, kept.Name, kept.UID, kept.Labels = ro.Namespace, ro.Name, ro.UID, ro.Labels
	return kept
}

// uid gives a Rollout the UID that it has in a cluster.
func uid(of string) func(*v1alpha1.Rollout) {
	return func(ro *v1alpha1.Rollout) { ro.UID = types.UID(of) }
}

func unobservedChange(ro *v1alpha1.Rollout) { ro.Generation++ }

// regionRollout returns what a decision of a canary with app v2 gets of a Rollout.
func regionRollout(t testing.TB, ro *v1alpha1.Rollout) RegionRollout {
	t.Helper()
	m := meeting{own: name{"demo", "b"}, uid: "own", version: "app v2", budget: cel.NewBudget()}
	return m.rollout(t.Context(), regionView{}, name{"demo", ro.Name}, inRegion(t, ro))
}

func TestARolloutOfAnotherRegionIs(t *testing.T) {
	failed := read(t, canary("b", 1, aborted(1)))
	tests := []struct {
		name   string
		until  Until
		other  *v1alpha1.Rollout
		failed *Rollout
		want   readiness
		saying string
	}{
		{"ready when Healthy with this version", "", canary("b", 0, runsApp("v2"), healthy), nil, ready, "is Healthy"},
		{"ready at the barrier with this version", "", canary("b", 1, runsApp("v2")), nil, ready, "is at it"},
		{"ready past the barrier with this version", "", canary("b", 2, runsApp("v2")), nil, ready, "is past it"},
		{"ready with this version of another registry", "", canary("b", 1, runs(map[string]string{"app": "us.example.com:5000/x/y:v2"})), nil, ready, "is at it"},
		{"waited for before the barrier with this version", "", canary("b", 0, runsApp("v2")), nil, notReady, "is at step 1 of 5, before step 2"},
		{"waited for when Healthy with another version", "", canary("b", 0, runsApp("v1"), healthy), nil, otherVersion, "has another version (app v1, and this one app v2): it is Healthy"},
		{"waited for at the barrier with another version", "", canary("b", 1, runsApp("v3")), nil, otherVersion, "has another version (app v3, and this one app v2): it is Progressing"},
		{"waited for when it has one container more", "", canary("b", 1, runs(map[string]string{"app": "a:v2", "proxy": "p:v1"})), nil, otherVersion, "has another version (proxy v1, and this one no more)"},
		{"waited for when aborted later with another version", "", canary("b", 1, runsApp("v1"), aborted(1)), nil, otherVersion, "has another version (app v1, and this one app v2): it is Degraded"},
		{"waited for when aborted with another version, and its change to this one is not observed", "", canary("b", 1, runsApp("v2"), aborted(1), unobservedChange), nil, notReady, unobserved},
		{"waited for when Healthy, and its change to this version is not observed", "", canary("b", 0, runsApp("v2"), healthy, unobservedChange), nil, notReady, unobserved},
		{"failed when aborted later with this version", "", canary("b", 1, runsApp("v2"), aborted(1)), nil, failedSince, "failed at 2026-11-22T12:00:01Z, after this canary began"},
		{"failed when being aborted with this version", "", canary("b", 1, runsApp("v2"), func(ro *v1alpha1.Rollout) { ro.Status.Abort = true }), nil, failedSince, "is being aborted"},
		{"failed when its spec is invalid with this version", "", canary("b", 1, runsApp("v2"), invalid(1)), nil, failedSince, "failed at"},
		{"waited for when aborted before with this version", "", canary("b", 1, runsApp("v2"), aborted(-1)), nil, failedBefore, "failed at 2026-11-22T11:59:59Z, before this canary began: retry it"},
		{"waited for when it has no containers", "", canary("b", 1), nil, notReady, "has a version that is not known: it has no containers"},
		{"missing when it is being deleted", "", canary("b", 1, runsApp("v2"), func(ro *v1alpha1.Rollout) { now := at(0); ro.DeletionTimestamp = &now }), nil, missing, "is being deleted"},

		{"failed when it failed later and has been put back since", "", canary("b", 0, runsApp("v1"), healthy), failed, failedSince, "failed at 2026-11-22T12:00:01Z with this version, after this canary began, and has been changed since (RolloutAborted: Rollout aborted update to revision 2)"},
		{"failed when it failed later and is being changed", "", canary("b", 1, runsApp("v2"), unobservedChange), failed, failedSince, "failed at"},
		{"failed when it failed later and its version is not known any more", "", canary("b", 1), failed, failedSince, "failed at"},
		{"waited for when it failed later and is retried", "", canary("b", 0, runsApp("v2")), failed, notReady, "is at step 1 of 5"},
		{"waited for when it failed before and has been put back since", "", canary("b", 0, runsApp("v1"), healthy), read(t, canary("b", 1, aborted(-1))), otherVersion, "has another version"},

		{"with until: Promoted ready when Healthy", UntilPromoted, canary("b", 0, runsApp("v2"), healthy), nil, ready, "is Healthy"},
		{"with until: Promoted waited for at the barrier", UntilPromoted, canary("b", 1, runsApp("v2")), nil, notReady, "has to become Healthy: it is Progressing (more replicas need to be updated)"},
		{"with until: Promoted waited for past the barrier", UntilPromoted, canary("b", 5, runsApp("v2")), nil, notReady, "has to become Healthy: it is Progressing"},
		{"with until: Promoted waited for when Healthy with another version", UntilPromoted, canary("b", 0, runsApp("v1"), healthy), nil, otherVersion, "has another version"},
		{"with until: Promoted failed when aborted later", UntilPromoted, canary("b", 1, runsApp("v2"), aborted(1)), nil, failedSince, "failed at"},
		{"with until: Promoted waited for when aborted before", UntilPromoted, canary("b", 1, runsApp("v2"), aborted(-1)), nil, failedBefore, "failed at"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := RegionSnapshot{Barrier: firstBarrier(), Since: noon, Version: "app v2", Until: test.until}
			other := regionRollout(t, test.other)
			other.Failed = test.failed
			got, saying := s.readinessOf(other)
			if got != test.want || !strings.HasPrefix(saying, test.saying) {
				t.Errorf("%v: %q, want %v: %q", got, saying, test.want, test.saying)
			}
		})
	}
}

func TestDecideRegions(t *testing.T) {
	region := func(name string, rollouts ...*v1alpha1.Rollout) Region {
		r := Region{Name: name}
		for _, ro := range rollouts {
			r.Others = append(r.Others, regionRollout(t, ro))
		}
		return r
	}
	away := func(seconds int, r Region) Region {
		r.Unreachable, r.UnreachableSince, r.Away = "connection refused", noon, time.Duration(seconds)*time.Second
		return r
	}
	gone := func(name string) Region {
		return Region{Name: name, Others: []RegionRollout{{Other: Other{Name: "demo/b"}}}}
	}
	v2 := runsApp("v2")
	atIt, past, before := canary("b", 1, v2), canary("b", 2, v2), canary("b", 0, v2)
	done, old := canary("b", 0, v2, healthy), canary("b", 0, runsApp("v1"), healthy)
	failed, failedOnce := canary("b", 1, v2, aborted(9)), canary("b", 1, v2, aborted(-9))
	const (
		since       = "has not answered since 2026-11-22T12:00:00Z: connection refused"
		failing     = "failed with others: demo/b in us failed at 2026-11-22T12:00:09Z, after this canary began (RolloutAborted: Rollout aborted update to revision 2)"
		progressing = "has to become Healthy: it is Progressing (more replicas need to be updated)"
	)
	tests := []struct {
		name             string
		own              string
		until            Until
		unreachable      OnUnreachable
		regions          []Region
		phase            steps.Phase
		message, waiting string
	}{
		{"all regions stand at the barrier", "eu", "", "", []Region{region("eu"), region("us", atIt), region("ap", atIt)}, steps.Successful, "demo/b in us is at it; demo/b in ap is at it", ""},
		{"some are further", "eu", "", "", []Region{region("ap", done), region("eu"), region("us", past)}, steps.Successful, "demo/b in ap is Healthy; demo/b in us is past it", ""},
		{"one is not changed yet", "eu", "", "", []Region{region("eu"), region("us", old), region("ap", atIt)}, steps.Running, "waiting for 1 of 2: demo/b in us has another version (app v1, and this one app v2): it is Healthy", "demo/b in us (other version)"},
		{"one is missing", "eu", "", "", []Region{region("eu"), gone("us"), region("ap", before)}, steps.Running, "waiting for 2 of 2: demo/b in us does not exist; demo/b in ap is at step 1 of 5, before step 2: it is Progressing (more replicas need to be updated)", "demo/b in us (missing), demo/b in ap (not ready)"},
		{"its own region is not listed", "", "", "", []Region{region("us", atIt)}, steps.Successful, "demo/b in us is at it", ""},
		{"its own region has another Rollout", "eu", "", "", []Region{region("eu", before), region("us", atIt)}, steps.Running, "waiting for 1 of 2: demo/b in eu is at step 1", "demo/b in eu (not ready)"},
		{"there is its own region alone", "eu", "", "", []Region{region("eu")}, steps.Successful, "there is no other Rollout to wait for", ""},
		{"one has failed", "eu", "", "", []Region{region("eu"), region("us", failed), region("ap", old)}, steps.Failed, failing, ""},
		{"one has failed before", "eu", "", "", []Region{region("eu"), region("us", failedOnce), region("ap", before)}, steps.Running, "waiting for 2 of 2: demo/b in us failed at 2026-11-22T11:59:51Z, before this canary began: retry it (RolloutAborted: Rollout aborted update to revision 2); demo/b in ap is at step 1", "demo/b in us (failed before), demo/b in ap (not ready)"},
		{"one has too few", "eu", "", "", []Region{region("eu"), {Name: "us", TooFew: "min is 1"}, region("ap", atIt)}, steps.Running, "waiting for 1 of 2: us has too few Rollouts: min is 1", "us (missing)"},

		{"one has not answered for some seconds, which is no minute", "eu", "", OnUnreachableFail, []Region{region("eu"), away(59, region("us", atIt)), region("ap", atIt)}, steps.Running, "waiting for 1 of 2: us " + since, "us (no answer)"},
		{"nor may it be ignored then", "eu", "", OnUnreachableIgnore, []Region{region("eu"), away(59, region("us", atIt))}, steps.Running, "waiting for 1 of 1: us " + since, "us (no answer)"},
		{"one does not answer", "eu", "", "", []Region{region("eu"), away(3600, region("us", atIt)), region("ap", atIt)}, steps.Running, "waiting for 1 of 2: us " + since, "us (no answer)"},
		{"one does not answer and is waited for", "eu", "", OnUnreachableWait, []Region{region("eu"), away(60, region("us")), region("ap", before)}, steps.Running, "waiting for 2 of 2: us " + since + "; demo/b in ap is at step 1", "us (no answer), demo/b in ap (not ready)"},
		{"one does not answer and is ignored", "eu", "", OnUnreachableIgnore, []Region{region("eu"), away(60, region("us", before)), region("ap", atIt)}, steps.Successful, "us is left out: it " + since + "; demo/b in ap is at it", ""},
		{"one is ignored, and another one waited for", "eu", "", OnUnreachableIgnore, []Region{region("eu"), away(60, gone("us")), region("ap", before)}, steps.Running, "waiting for 1 of 1: demo/b in ap is at step 1", "demo/b in ap (not ready)"},
		{"one that failed before this canary began is not ignored", "eu", "", OnUnreachableIgnore, []Region{region("eu"), away(3600, region("us", failedOnce)), region("ap", atIt)}, steps.Running, "waiting for 2 of 3: us " + since + "; demo/b in us failed at 2026-11-22T11:59:51Z, before this canary began: retry it", "demo/b in us (failed before), us (no answer)"},
		{"one does not answer, which fails", "eu", "", OnUnreachableFail, []Region{region("eu"), away(60, region("us", atIt)), region("ap", before)}, steps.Failed, "failed with others: us " + since, ""},
		{"its own does not answer and is ignored", "eu", "", OnUnreachableIgnore, []Region{away(60, region("eu")), region("us", atIt)}, steps.Successful, "eu is left out: it " + since + "; demo/b in us is at it", ""},
		{"one failed before it did not answer", "eu", "", "", []Region{region("eu"), away(1, region("us", failed))}, steps.Failed, failing, ""},
		{"one failed before it did not answer, and is not ignored", "eu", "", OnUnreachableIgnore, []Region{region("eu"), away(3600, region("us", failed))}, steps.Failed, failing, ""},

		{"the first goes on", "eu", UntilPromoted, "", []Region{region("eu"), region("us", old), gone("ap")}, steps.Successful, "eu is the first of the clusters", ""},
		{"the second waits for the first", "us", UntilPromoted, "", []Region{region("eu", atIt), region("us"), region("ap", old)}, steps.Running, "waiting for 1 of 1: demo/b in eu " + progressing, "demo/b in eu (not ready)"},
		{"the second goes on after the first", "us", UntilPromoted, "", []Region{region("eu", done), region("us"), region("ap", before)}, steps.Successful, "demo/b in eu is Healthy", ""},
		{"the third waits for the second", "ap", UntilPromoted, "", []Region{region("eu", done), region("us", past), region("ap")}, steps.Running, "waiting for 1 of 2: demo/b in us " + progressing, "demo/b in us (not ready)"},
		{"the third goes on last", "ap", UntilPromoted, "", []Region{region("eu", done), region("us", done), region("ap")}, steps.Successful, "demo/b in eu is Healthy; demo/b in us is Healthy", ""},
		{"a later one that failed since", "eu", UntilPromoted, "", []Region{region("eu"), region("us", failed)}, steps.Failed, failing, ""},
		{"a later one that failed before", "eu", UntilPromoted, "", []Region{region("eu"), region("us", failedOnce)}, steps.Successful, "eu is the first of the clusters", ""},
		{"a later one that does not answer", "eu", UntilPromoted, OnUnreachableFail, []Region{region("eu"), away(60, region("us"))}, steps.Successful, "eu is the first of the clusters", ""},
		{"a former one that does not answer", "us", UntilPromoted, "", []Region{away(60, region("eu", done)), region("us")}, steps.Running, "waiting for 1 of 1: eu " + since, "eu (no answer)"},
		{"a former one that is ignored", "us", UntilPromoted, OnUnreachableIgnore, []Region{away(60, region("eu")), region("us")}, steps.Successful, "eu is left out: it " + since, ""},
		{"its own, known from before, does not answer", "us", UntilPromoted, "", []Region{region("eu", done), away(60, region("us"))}, steps.Successful, "demo/b in eu is Healthy", ""},
		{"its own is not listed", "", UntilPromoted, "", []Region{region("eu", done), region("us", done)}, steps.Running, "with until: Promoted a Rollout waits for the clusters before its own, and this one is in none that answers: want its cluster in the list, which has eu, us", "its own cluster"},
		{"its own does not answer", "", UntilPromoted, OnUnreachableIgnore, []Region{region("eu", done), away(60, region("us"))}, steps.Running, "with until: Promoted a Rollout waits for the clusters before its own, and this one is in none that answers: us " + since, "us (no answer)"},
		{"its own does not answer, and one has failed", "", UntilPromoted, "", []Region{away(60, region("eu")), region("us", failed)}, steps.Failed, failing, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := decideRegions(RegionSnapshot{
				Barrier: firstBarrier(), Since: noon, Version: "app v2", Own: test.own,
				Until: test.until, OnUnreachable: test.unreachable, Regions: test.regions,
			})
			if got.Phase != test.phase || !strings.HasPrefix(got.Message, "barrier acme/check-others#1: "+test.message) || got.Waiting != test.waiting {
				t.Errorf("%s\n %q\n(%q), want %s\n %q\n(%q)", got.Phase, got.Message, got.Waiting, test.phase, test.message, test.waiting)
			}
		})
	}
}

// A message of the status has at most 512 bytes, and names the region that needs somebody.
func TestMessagesAboutRegionsAreBounded(t *testing.T) {
	long := strings.Repeat("é", 1000)
	var regions []Region
	for i := range maxClusters {
		r := Region{Name: fmt.Sprintf("a-region-with-a-long-name-%03d", i)}
		for range 200 {
			r.Others = append(r.Others, regionRollout(t, canary(strings.Repeat("n", 200), 0, runsApp(strings.Repeat("1", 128)), func(ro *v1alpha1.Rollout) { ro.Status.Message = long })))
		}
		regions = append(regions, r)
	}
	regions[7].Unreachable, regions[7].Away = long, time.Hour
	for _, until := range []Until{UntilBarrier, UntilPromoted} {
		got := decideRegions(RegionSnapshot{Barrier: firstBarrier(), Since: noon, Version: "app v2", Until: until, Regions: regions})
		if got.Phase != steps.Running || len(got.Message) > 512 || !strings.Contains(got.Message, regions[7].Name+" has not answered since") {
			t.Errorf("%s: %d bytes: %q", got.Phase, len(got.Message), got.Message)
		}
	}
}

// What a region's watches have seen fail is kept, until it is deleted.
func TestFailuresAreKept(t *testing.T) {
	v2 := runsApp("v2")
	failed := inRegion(t, canary("b", 1, v2, aborted(1)))
	tests := []struct {
		name  string
		after *kube.Summary[Rollout]
		keeps bool
	}{
		{"put back to another version", inRegion(t, canary("b", 0, runsApp("v1"), healthy)), true},
		{"changed to another version", inRegion(t, canary("b", 0, runsApp("v3"))), true},
		{"changed, which is not observed", inRegion(t, canary("b", 0, runsApp("v2"), unobservedChange)), true},
		{"retried", inRegion(t, canary("b", 0, v2)), true},
		{"deleted", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var f failures
			f.changed(nil, failed)
			f.changed(failed, test.after)
			got := f.since(nameOf("b"), at(1).Time)
			if (got == failed) != test.keeps || !test.keeps && got != nil {
				t.Errorf("kept: %v, want %t", got, test.keeps)
			}
			if got := f.since(nameOf("b"), at(2).Time); got != nil {
				t.Errorf("a failure since a later time: %v", got)
			}
		})
	}
	var f failures
	unobservedAbort := inRegion(t, canary("b", 1, v2, aborted(1), unobservedChange))
	f.changed(nil, unobservedAbort)
	if got := f.since(nameOf("b"), time.Time{}); got != nil {
		t.Errorf("an abort that may be of the version before is kept: %v", got)
	}
	if got := (*failures)(nil).since(nameOf("b"), time.Time{}); got != nil {
		t.Errorf("a failure of none: %v", got)
	}
}

// A watch shows a failure, and the Rollout is put back while the region does not answer, before
// another watch begins with other credentials.
func TestFailuresOutliveAWatch(t *testing.T) {
	c := newTwoClusters(t)
	// The handlers of a watch are called a moment after it shows a change.
	keeps := func(want bool) *kube.Summary[Rollout] {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if failed := c.view("demo").Failures.since(nameOf("b"), time.Time{}); (failed != nil) == want {
				return failed
			}
		}
		t.Fatalf("kept: %t, want %t", !want, want)
		return nil
	}
	c.there.PutObject("rollouts", canary("b", 1, runsApp("v2"), aborted(9)))
	keeps(true)
	c.accept("token-2")
	c.there.EndWatches()
	c.await("demo/b RolloutAborted: Rollout aborted update to revision 2; unreachable: it does not accept the credentials", "demo")
	c.there.PutObject("rollouts", canary("b", 0, runsApp("v1"), healthy))
	c.secret(c.kubeconfig("token-2", ""))
	now := c.await("demo/b", "demo").Rollouts[0]
	if failed := keeps(true); failed.Content.Images["app"] != "registry.example.com/app:v2" || now.Content.Images["app"] != "registry.example.com/app:v1" {
		t.Errorf("failed: %v, now: %v", failed, now)
	}
	c.there.Delete("rollouts", "demo", "b")
	keeps(false)
}
