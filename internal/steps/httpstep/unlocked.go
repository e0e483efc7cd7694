package httpstep

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// requestKeys are the keys of a Config that are requests. All have the credentials of the
// first by default.
var requestKeys = []string{"request", "find", "poll", "cancel", "onAbort"}

// Unlocked returns the requests that a preset lets a Rollout make with a Secret of another
// namespace, which only a preset can refer to: the Rollout may say their URL.
func Unlocked(preset *steps.Preset) []string {
	request, _ := preset.Defaults["request"].(map[string]any)
	forAll := hasElsewhere(request["auth"])
	var open []string
	for _, key := range requestKeys {
		isLocked := slices.ContainsFunc([]string{"*", key, key + ".url"}, func(path string) bool { return slices.Contains(preset.Locked, path) })
		if !isLocked && (forAll || hasElsewhere(preset.Defaults[key])) {
			open = append(open, key)
		}
	}
	return open
}

// hasElsewhere tells whether a configuration refers to a Secret by namespace.
func hasElsewhere(value any) bool {
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, hasElsewhere)
	case map[string]any:
		for key, inner := range value {
			ref, _ := inner.(map[string]any)
			if key == "secretKeyRef" && ref["namespace"] != nil || hasElsewhere(inner) {
				return true
			}
		}
	}
	return false
}
