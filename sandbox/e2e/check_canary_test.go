package e2e

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The check finds faults of the split in the middle of a canary, too.
func TestCheckCanary(t *testing.T) {
	t.Parallel()
	outer := e2etest.NewNamespace(t)
	checktest.DeploySample(t, outer)
	checktest.StartSample(t, outer)
	args := []string{checktest.Sample, "-n", outer.Name}

	text := func(s string) *string { return &s }
	now := checktest.SampleSplit(20)
	for name, tc := range map[string]struct {
		set             map[string]*string
		status, message string
	}{
		"annotation removed": {
			set:    map[string]*string{e2etest.SplitAnnotation: nil, e2etest.OwnerAnnotation: nil},
			status: checktest.Failure, message: "carries no split, the Rollout's status says rollouts-demo-stable=80,rollouts-demo-canary=20",
		},
		"malformed": {
			set:    map[string]*string{e2etest.SplitAnnotation: text("- service: rollouts-demo-stable\n  weight: many\n")},
			status: checktest.Failure, message: "cannot be read",
		},
		"other weights": {
			set:    map[string]*string{e2etest.SplitAnnotation: text(checktest.SampleSplit(50).Text)},
			status: checktest.Failure, message: "the Rollout's status says rollouts-demo-stable=80,rollouts-demo-canary=20",
		},
		"sides exchanged": {
			set:    map[string]*string{e2etest.SplitAnnotation: text(checktest.SampleSplit(80).Text)},
			status: checktest.Failure, message: "carries rollouts-demo-stable=20,rollouts-demo-canary=80",
		},
		"no owner": {
			set:    map[string]*string{e2etest.OwnerAnnotation: nil},
			status: checktest.Warning, message: "does not say who set it",
		},
		"owner gone": {
			set:    map[string]*string{e2etest.OwnerAnnotation: text("gone")},
			status: checktest.Failure, message: "carries the split of Rollout gone, which does not exist",
		},
	} {
		passed := t.Run(name, func(t *testing.T) {
			n := outer.With(t)
			checktest.Fault{
				Name: name,
				Make: func() { n.Annotate(checktest.Sample, tc.set) },
				// Restores what the plugin wrote, as the controller's next reconcile would.
				Undo: func() {
					n.Annotate(checktest.Sample, map[string]*string{e2etest.SplitAnnotation: &now.Text, e2etest.OwnerAnnotation: &now.Owner})
				},
				Want: []checktest.Finding{{Check: "annotation", Status: tc.status, Object: "HTTPScaledObject " + checktest.Sample, Message: tc.message}},
			}.Find(t, args...)
		})
		if !passed {
			t.Fatal("the faults that follow are not made: the one before may still be there")
		}
	}

	t.Run("aborted", func(t *testing.T) {
		n := outer.With(t)
		n.Abort(checktest.Sample)
		n.AwaitAborted(checktest.Sample)
		nothing := func() {}
		checktest.Fault{
			Name: "aborted", Make: nothing,
			Want: []checktest.Finding{{Check: "rollout-health", Status: checktest.Warning, Object: "Rollout " + checktest.Sample, Message: "is aborted, all traffic is on stable", Remedy: "retry rollout"}},
		}.FindOnly(t, args...)
	})
}
