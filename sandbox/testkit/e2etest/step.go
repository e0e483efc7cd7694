package e2etest

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// AwaitStep waits until the plugin step with the given index, counting from 0, is in a
// phase, with a message that has all parts.
func (n *Namespace) AwaitStep(name string, index int32, phase v1alpha1.StepPluginPhase, parts ...string) *v1alpha1.Rollout {
	n.t.Helper()
	return n.AwaitRollout(name, fmt.Sprintf("step %d is %s with %q", index, phase, parts), func(ro *v1alpha1.Rollout) error {
		for _, s := range ro.Status.Canary.StepPluginStatuses {
			if s.Index != index || s.Operation != v1alpha1.StepPluginOperationRun {
				continue
			}
			if s.Phase != phase || !ContainsAll(s.Message, parts) {
				return fmt.Errorf("step %d is %s: %s", index, s.Phase, s.Message)
			}
			return nil
		}
		return fmt.Errorf("step %d has not run", index)
	})
}

// Preset returns the ConfigMap of a preset of the step plugin, in the controller's
// namespace, with YAML for its text.
func Preset(name, text string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: %s
  namespace: %s
  labels: {rollouts.kedify.io/step-preset: "true"}
data:
  preset.yaml: |
%s
`, name, ControllerNamespace, Indent(4, text))
}
