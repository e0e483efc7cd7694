package httpstep

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// checkPresetSecrets returns an error if a request that has a Secret of another namespace, to
// which only a preset can refer, goes where the preset does not say, or is changed by a
// Rollout: the Rollout's author could otherwise make any request with that Secret to the
// preset's hosts, and read the answer.
func (s *step) checkPresetSecrets(source steps.Source) error {
	given, preset := objectIn(source.Config), objectIn(source.Defaults)
	for _, c := range s.calls() {
		if !c.confined() {
			continue
		}
		if path := c.chosenHost(); path != "" {
			return fmt.Errorf("%s: want a URL that begins with the scheme and the host: %s has a Secret of another namespace, and an expression, raw() or a Secret of the Rollout's could send it elsewhere", path, c.path)
		}
		if key := c.setByRollout(given, preset); key != "" {
			instead := ""
			if c.server != nil && inner(given, c.path)["auth"] == nil {
				instead = fmt.Sprintf("; with %s.auth of its own, or {}, it has not the credentials of server", c.path)
			}
			return fmt.Errorf("%s: %s has a Secret of another namespace, so that a Rollout may set its timeout alone, and the preset has to set the rest%s", key, c.path, instead)
		}
		if key := c.outputsSetByRollout(given, preset); key != "" {
			return fmt.Errorf("%s: %s sends outputs along with a Secret of another namespace, so that the preset has to set what gives the step its outputs", key, c.path)
		}
	}
	return nil
}

// chosenHost returns the key of a URL of a call whose host the preset does not say; empty if
// there is none.
func (c *call) chosenHost() string {
	for _, url := range c.urls() {
		if url.origin() == "" && !url.ref.OtherNamespace() {
			return url.path
		}
	}
	return ""
}

// setByRollout returns a key that a Rollout has set of a request, or of the server it goes
// to; empty if there is none.
func (c *call) setByRollout(given, preset object) string {
	key := differing(given, preset, c.path)
	if key == "" && c.server != nil {
		key = differing(given, preset, "server")
	}
	if key == "" && c.path == "request" {
		key = differingOutputs(given, preset)
	}
	return key
}

// outputsSetByRollout returns a key by which a Rollout has set an output, if the preset has a
// call send outputs; empty if there is none.
func (c *call) outputsSetByRollout(given, preset object) string {
	for _, path := range []string{c.path, "server"} {
		for key, value := range inner(preset, path) {
			if key != "outputs" && bytes.Contains(value, []byte("outputs")) {
				return cmp.Or(differing(given, preset, "server", "request", "find", "poll"), differingOutputs(given, preset))
			}
		}
	}
	return ""
}

func differingOutputs(given, preset object) string {
	if bytes.Equal(given["outputs"], preset["outputs"]) {
		return ""
	}
	return "outputs"
}

// differing returns the first key in which one of the parts of two configurations differs, but
// `timeout`, which a Rollout may set: all others say what is sent and where, or read what the
// Secret gives access to. It is empty if there is none.
func differing(given, preset object, paths ...string) string {
	for _, path := range paths {
		a, b := inner(given, path), inner(preset, path)
		keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
		slices.Sort(keys)
		for _, key := range keys {
			if key != "timeout" && !bytes.Equal(a[key], b[key]) {
				return path + "." + key
			}
		}
	}
	return ""
}

// object is an object of JSON. Both configurations have been written by encoding/json, so that
// what is the same is written the same.
type object map[string]json.RawMessage

// objectIn returns an object; nil if a text is none.
func objectIn(text json.RawMessage) (o object) {
	if json.Unmarshal(text, &o) != nil {
		return nil
	}
	return o
}

func inner(o object, key string) object { return objectIn(o[key]) }
