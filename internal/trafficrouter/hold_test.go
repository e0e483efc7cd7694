package trafficrouter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugin "github.com/argoproj/argo-rollouts/utils/plugin/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// On the way back to stable the maximum weight counts as verified when it is held: NotVerified
// fails the reconcile before stable is scaled up, and stable would never be.
func TestAHeldMaximumWeightOnTheWayBackIsVerified(t *testing.T) {
	ways := map[string]func(*v1alpha1.Rollout){
		"abort":    func(ro *v1alpha1.Rollout) { ro.Status.Abort = true },
		"rollback": func(ro *v1alpha1.Rollout) { ro.Status.CurrentPodHash = ro.Status.StableRS },
	}
	faults := map[string]func(*toys, *v1alpha1.Rollout){
		"refused write": func(s *toys, _ *v1alpha1.Rollout) {
			s.fails["a"] = apierrors.NewForbidden(toyResource, "a", errors.New("no"))
		},
		"spec fault": func(_ *toys, ro *v1alpha1.Rollout) { ro.Spec.Strategy.Canary.CanaryService = "" },
		"refused read": func(s *toys, _ *v1alpha1.Rollout) {
			s.unread = apierrors.NewForbidden(toyResource, "a", errors.New("no"))
		},
		"missing object": func(s *toys, _ *v1alpha1.Rollout) { delete(s.objects, "b") },
	}
	for way, goBack := range ways {
		for fault, breakIt := range faults {
			for before, weights := range map[int32][]int32{100: {100, 60}, 80: {100}} {
				t.Run(fmt.Sprintf("%s, %s, %d", way, fault, before), func(t *testing.T) {
					r, s, server := newRouter(t, "a", "b")
					ro := rolloutOf("a", "b")
					ro.Spec.Strategy.Canary.DynamicStableScale = true
					succeed(t, r.SetWeight(ro, before, nil))
					goBack(ro)
					breakIt(s, ro)
					for _, weight := range weights {
						succeed(t, r.SetWeight(ro, weight, nil))
						got, _ := r.VerifyWeight(ro, weight, nil)
						if want := weight == 100; (got == plugin.Verified) != want {
							t.Errorf("weight %d is verified: %t", weight, !want)
						}
					}
					requireEvent(t, server, "the toy stays as it is")
				})
			}
		}
	}
}
