package e2etest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SetImage starts a canary: `kubectl argo rollouts set image`. The container
// has the Rollout's name, as that of an App has.
func (n *Namespace) SetImage(rollout, image string) {
	n.t.Helper()
	n.ArgoRollouts("set", "image", rollout, rollout+"="+image)
}

// Promote goes on from a pause: `kubectl argo rollouts promote`, with --full
// and the like in flags.
func (n *Namespace) Promote(rollout string, flags ...string) {
	n.t.Helper()
	n.ArgoRollouts(append([]string{"promote", rollout}, flags...)...)
}

// Abort is `kubectl argo rollouts abort`.
func (n *Namespace) Abort(rollout string) {
	n.t.Helper()
	n.ArgoRollouts("abort", rollout)
}

// Retry is `kubectl argo rollouts retry rollout`.
func (n *Namespace) Retry(rollout string) {
	n.t.Helper()
	n.ArgoRollouts("retry", "rollout", rollout)
}

// Undo is `kubectl argo rollouts undo`.
func (n *Namespace) Undo(rollout string) {
	n.t.Helper()
	n.ArgoRollouts("undo", rollout)
}

// Reconcile makes the controller look at a Rollout again, by a label on it
// that changes nothing.
func (n *Namespace) Reconcile(rollout string) {
	n.t.Helper()
	current := n.Rollout(rollout)
	patch := fmt.Sprintf(`{"metadata":{"labels":{"e2e/look-again":%q}}}`, "after-"+current.ResourceVersion)
	n.PatchRollout(rollout, patch)
}

// PatchRollout changes a Rollout by a JSON merge patch.
func (n *Namespace) PatchRollout(rollout, patch string) {
	n.t.Helper()
	_, err := n.Rollouts.ArgoprojV1alpha1().Rollouts(n.Name).
		Patch(n.t.Context(), rollout, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "e2e"})
	if err != nil {
		n.t.Fatalf("patching Rollout %s/%s: %v", n.Name, rollout, err)
	}
}

// Rollout returns a Rollout as it is now.
func (n *Namespace) Rollout(name string) *v1alpha1.Rollout {
	n.t.Helper()
	ro, err := n.Rollouts.ArgoprojV1alpha1().Rollouts(n.Name).Get(n.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		n.t.Fatalf("Rollout %s/%s: %v", n.Name, name, err)
	}
	return ro
}

// AwaitRollout waits until the status of a Rollout is that of its present spec, and
// check returns nil for it.
func (n *Namespace) AwaitRollout(name, what string, check func(*v1alpha1.Rollout) error) *v1alpha1.Rollout {
	n.t.Helper()
	var last *v1alpha1.Rollout
	Eventually(n.t, Patience, fmt.Sprintf("Rollout %s: %s", name, what), func(ctx context.Context) error {
		ro, err := n.Rollouts.ArgoprojV1alpha1().Rollouts(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		last = ro
		if observed := ro.Status.ObservedGeneration; observed != strconv.FormatInt(ro.Generation, 10) {
			return fmt.Errorf("the controller has seen generation %s of %d", observed, ro.Generation)
		}
		if err := check(ro); err != nil {
			return fmt.Errorf("%w; it is %s: %s", err, ro.Status.Phase, ro.Status.Message)
		}
		return nil
	})
	return last
}

// AwaitHealthy waits until a Rollout is healthy and runs the given image
// everywhere.
func (n *Namespace) AwaitHealthy(name, image string) *v1alpha1.Rollout {
	n.t.Helper()
	return n.AwaitRollout(name, "healthy with "+image, func(ro *v1alpha1.Rollout) error {
		switch {
		case ro.Spec.Template.Spec.Containers[0].Image != image:
			return fmt.Errorf("its image is %s", ro.Spec.Template.Spec.Containers[0].Image)
		case ro.Status.Phase != v1alpha1.RolloutPhaseHealthy:
			return errors.New("not healthy")
		case ro.Status.StableRS == "" || ro.Status.StableRS != ro.Status.CurrentPodHash:
			return fmt.Errorf("stable is %q, current %q", ro.Status.StableRS, ro.Status.CurrentPodHash)
		}
		return nil
	})
}

// AwaitPaused waits until a Rollout is paused at the step with the given
// index, counting from 0.
func (n *Namespace) AwaitPaused(name string, step int32) *v1alpha1.Rollout {
	n.t.Helper()
	return n.AwaitRollout(name, fmt.Sprintf("paused at step %d", step), func(ro *v1alpha1.Rollout) error {
		switch {
		case ro.Status.CurrentStepIndex == nil:
			return errors.New("it has no step")
		case *ro.Status.CurrentStepIndex != step:
			return fmt.Errorf("it is at step %d", *ro.Status.CurrentStepIndex)
		case len(ro.Status.PauseConditions) == 0:
			return errors.New("it is not paused")
		}
		return nil
	})
}

// AwaitReconciled waits until the controller in a namespace has reconciled a Rollout as it
// is. It leaves a paused Rollout alone then: a call of its own would put back, without an
// Event, what a test changes.
func (n *Namespace) AwaitReconciled(controllerNamespace, name string) {
	n.t.Helper()
	Eventually(n.t, Patience, "Rollout "+name+" is reconciled", func(ctx context.Context) error {
		ro, err := n.Rollouts.ArgoprojV1alpha1().Rollouts(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		log, err := TryShell(ctx, "kubectl -n "+controllerNamespace+" logs deploy/argo-rollouts --since=5m")
		if err == nil && !LineWith(log, "Reconciliation completed", " namespace="+n.Name+" resourceVersion="+ro.ResourceVersion+" rollout="+name+" ") {
			err = fmt.Errorf("the controller's log does not say so of the resourceVersion %s", ro.ResourceVersion)
		}
		return err
	})
}

// AwaitHeld waits until the controller has been told that the weight of the step with the
// given index is not verified. The test fails if the Rollout goes on to the next step.
func (n *Namespace) AwaitHeld(name string, step int32) {
	n.t.Helper()
	n.AwaitRollout(name, fmt.Sprintf("held at step %d", step), func(ro *v1alpha1.Rollout) error {
		switch weights := ro.Status.Canary.Weights; {
		case ro.Status.CurrentStepIndex == nil:
			return errors.New("it has no step")
		case *ro.Status.CurrentStepIndex != step:
			return fmt.Errorf("it is at step %d", *ro.Status.CurrentStepIndex)
		case weights == nil || weights.Verified == nil:
			return errors.New("its status does not say whether the weight is verified")
		case *weights.Verified:
			return errors.New("the weight is verified")
		}
		return nil
	})
}

// AwaitAborted waits until a Rollout has been aborted and runs on its stable
// ReplicaSet again.
func (n *Namespace) AwaitAborted(name string) *v1alpha1.Rollout {
	n.t.Helper()
	return n.AwaitRollout(name, "aborted", func(ro *v1alpha1.Rollout) error {
		switch {
		case !ro.Status.Abort:
			return errors.New("not aborted")
		case ro.Status.Phase != v1alpha1.RolloutPhaseDegraded:
			return errors.New("not degraded")
		case ro.Spec.Strategy.Canary.TrafficRouting == nil:
			return nil // it has no weights
		case ro.Status.Canary.Weights == nil || ro.Status.Canary.Weights.Canary.Weight != 0:
			return errors.New("its canary still has weight")
		}
		return nil
	})
}

// annotationPatch is a JSON merge patch that sets annotations; a nil value
// removes one.
func annotationPatch(annotations map[string]*string) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
}
