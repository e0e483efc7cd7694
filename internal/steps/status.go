package steps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// statusLimit bounds the status that a step keeps in the Rollout, in bytes.
	statusLimit = 4 << 10
	// outputLimit bounds one output, outputsLimit all outputs of a step, in bytes.
	outputLimit  = 1 << 10
	outputsLimit = 2 << 10
	// stateLimit bounds what a kind keeps of an attempt, in bytes.
	stateLimit = 1 << 10
)

// stage says which operation a step's next call makes.
type stage string

const (
	// stageNew: nothing was started.
	stageNew stage = "New"
	// stageStarting: Start may have been made, and has not answered.
	stageStarting stage = "Starting"
	// stageRunning: Start has answered, the work has not ended.
	stageRunning stage = "Running"
	// stageDone: the step has succeeded.
	stageDone stage = "Done"
	// stageFailed: the step has failed.
	stageFailed stage = "Failed"
)

// status is what a step keeps in status.canary.stepPluginStatuses[].status. It holds no
// secrets: everybody who may read the Rollout reads it.
type status struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Key is that of the first attempt.
	Key   string `json:"key"`
	Index int32  `json:"index"`
	// Started is when the first Run was made.
	Started time.Time `json:"started"`
	// Called is when the last Run was made, and Elapsed how much of the timeout is used.
	Called  time.Time `json:"called"`
	Elapsed seconds   `json:"elapsed"`
	// Attempt counts from 1.
	Attempt int32 `json:"attempt"`
	Stage   stage `json:"stage"`
	// Process is the one that makes the Start of stageStarting.
	Process string `json:"process,omitempty"`
	// Waiting is what the last Event said the step waits for.
	Waiting string            `json:"waiting,omitempty"`
	State   json.RawMessage   `json:"state,omitempty"`
	Outputs map[string]string `json:"outputs,omitempty"`
}

// seconds is a duration as a JSON number of seconds, in tenths.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.1f", time.Duration(s).Seconds()), nil
}

func (s *seconds) UnmarshalJSON(text []byte) error {
	var number float64
	if err := json.Unmarshal(text, &number); err != nil {
		return err
	}
	*s = seconds(number * float64(time.Second))
	return nil
}

// readStatus reads the status of a step that has been run before; nil for one that has not.
func readStatus(raw json.RawMessage) (*status, error) {
	if len(bytes.TrimSpace(raw)) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, nil
	}
	var s status
	if err := json.Unmarshal(raw, &s); err != nil || s.Key == "" || s.Attempt < 1 {
		return nil, fmt.Errorf("the step's status in the Rollout was not written by this plugin (%.100q): abort the canary and try again", raw)
	}
	return &s, nil
}

// write returns the status as JSON, of at most 4 KiB.
func (s *status) write() json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil || len(text) > statusLimit {
		// Outputs and state are bounded where they are taken in; this is for what is not
		// ours, such as an id that is all escapes.
		less := *s
		less.Outputs, less.Waiting = nil, ""
		text, _ = json.Marshal(less)
	}
	return text
}

// take adds what an operation has found to the status. It returns the names of outputs
// that are too large to be kept.
func (s *status) take(p Progress) (dropped []string) {
	if len(p.State) > 0 && len(p.State) <= stateLimit {
		s.State = p.State
	}
	outputs, size := map[string]string{}, 0
	add := func(name, value string) {
		more := jsonSize(name) + jsonSize(value)
		if jsonSize(value) > outputLimit || size+more > outputsLimit {
			dropped = append(dropped, name)
			return
		}
		outputs[name] = value
		size += more
	}
	for _, name := range slices.Sorted(maps.Keys(p.Outputs)) {
		add(name, p.Outputs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Outputs)) {
		if _, again := p.Outputs[name]; !again {
			add(name, s.Outputs[name])
		}
	}
	s.Outputs = outputs
	return dropped
}

// jsonSize is the length of a text as JSON, where quotes and control characters take more.
func jsonSize(text string) int {
	encoded, _ := json.Marshal(text)
	return len(encoded)
}
