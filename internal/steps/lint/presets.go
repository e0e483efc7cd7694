package lint

import (
	"fmt"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/httpstep"
)

// CheckPreset returns what is wrong with a preset that can be read, by its path in the
// ConfigMap.
func CheckPreset(preset *steps.Preset) []Problem {
	unlocked := httpstep.Unlocked(preset)
	if len(unlocked) == 0 {
		return nil
	}
	return []Problem{{
		fmt.Sprintf("data[%q].locked", steps.PresetKey),
		fmt.Sprintf("the preset refers to a Secret of another namespace, and a Rollout may set %[1]s: its author could send any request with that Secret; lock %[1]s, or *", strings.Join(unlocked, ", ")),
	}}
}
