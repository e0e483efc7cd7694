package httpstep

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// freeKeys are the keys that a Rollout may set in a request that has a Secret of another
// namespace. All other keys say what is sent and where, or read what the Secret gives
// access to.
var freeKeys = []string{"timeout", "interval"}

// checkPresetSecrets returns an error if a Rollout changes a request that has a Secret of
// another namespace, to which only a preset can refer: the Rollout's author could
// otherwise make any request with that Secret to the preset's hosts, and read the answer.
func (s *step) checkPresetSecrets(source steps.Source) error {
	given, preset := objectIn(source.Config), objectIn(source.Defaults)
	for _, c := range s.calls() {
		key := setByRollout(c.path, given, preset)
		if !c.confined() || key == "" {
			continue
		}
		instead := ""
		if c.path != "request" && inner(given, c.path)["auth"] == nil {
			instead = fmt.Sprintf("; with %s.auth of its own, or {}, it has not the credentials of request", c.path)
		}
		return fmt.Errorf("%s: %s has a Secret of another namespace, so that a Rollout may set its timeout and interval alone, and the preset has to set the rest%s", key, c.path, instead)
	}
	return nil
}

// setByRollout returns a key that a Rollout has set of a request, or of what that request
// takes from `request`; empty if there is none.
func setByRollout(path string, given, preset map[string]any) string {
	call := inner(given, path)
	if key := differing(call, inner(preset, path)); key != "" {
		return path + "." + key
	}
	for _, key := range []string{"auth", "caFrom"} {
		if call[key] == nil && !reflect.DeepEqual(inner(given, "request")[key], inner(preset, "request")[key]) {
			return "request." + key
		}
	}
	if path == "request" && !reflect.DeepEqual(given["outputs"], preset["outputs"]) {
		return "outputs"
	}
	return ""
}

// differing returns the first key, except freeKeys, in which two requests differ; empty if
// there is none.
func differing(a, b map[string]any) string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	for _, key := range keys {
		if !slices.Contains(freeKeys, key) && !reflect.DeepEqual(a[key], b[key]) {
			return key
		}
	}
	return ""
}

func objectIn(config json.RawMessage) map[string]any {
	object, _ := decode(config).(map[string]any)
	return object
}

func inner(object map[string]any, key string) map[string]any {
	value, _ := object[key].(map[string]any)
	return value
}
