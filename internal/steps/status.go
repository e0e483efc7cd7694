package steps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

const (
	// statusLimit bounds the status that a step keeps in the Rollout, in bytes.
	statusLimit = 4 << 10
	// outputLimit bounds one output, outputsLimit all outputs of a step, in bytes of JSON.
	outputLimit  = 1 << 10
	outputsLimit = 2 << 10
	// stateLimit bounds the state that a kind keeps of an attempt, in bytes of JSON.
	stateLimit = 1 << 10
)

// stage says which operation a step's next call makes.
type stage string

const (
	// stageNew: no Start was made when this was stored.
	stageNew stage = "New"
	// stageAnnounced: the next call makes the Start. Only a step that must know whether a
	// Start was made has this stage.
	stageAnnounced stage = "Announced"
	// stageStarting: a Start was made, and may have been carried out.
	stageStarting stage = "Starting"
	// stageRunning: Start has answered, the work has not ended.
	stageRunning stage = "Running"
	// stageDone: the step has succeeded.
	stageDone stage = "Done"
	// stageFailed: the step has failed.
	stageFailed stage = "Failed"
)

var stages = []stage{stageNew, stageAnnounced, stageStarting, stageRunning, stageDone, stageFailed}

// status is what a step keeps in status.canary.stepPluginStatuses[].status. It holds no
// secrets: everyone who may read the Rollout can read it. It is not trusted: everyone who
// may edit the Rollout can change it.
type status struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Key tells the step's run in this canary from others of its Rollout.
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
	// Process has written this.
	Process string `json:"process"`
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

var keyPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// readStatus reads the status of a step that has been run before; nil for one that has not.
func readStatus(raw json.RawMessage) (*status, error) {
	if len(bytes.TrimSpace(raw)) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, nil
	}
	var s status
	if len(raw) > 2*statusLimit || json.Unmarshal(raw, &s) != nil || !s.isOurs() {
		return nil, fmt.Errorf("the step's status in the Rollout was not written by this plugin (%.100q): abort the canary and try again", raw)
	}
	return &s, nil
}

// isOurs tells whether the plugin may have written a status.
func (s *status) isOurs() bool {
	return keyPattern.MatchString(s.Key) && slices.Contains(stages, s.Stage) &&
		s.Attempt >= 1 && s.Attempt <= maxRetries+1 && s.Index >= 0 && s.Elapsed >= 0 &&
		(idPattern.MatchString(s.ID) || s.ID == strconv.Itoa(int(s.Index))) &&
		jsonSize(s.State) <= stateLimit && jsonSize(s.Outputs) <= 2*outputsLimit
}

// write returns the status as JSON, of at most 4 KiB.
func (s *status) write() json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil || len(text) > statusLimit {
		less := *s
		less.Waiting = "" // the other fields are bounded when they are set
		text, _ = json.Marshal(less)
	}
	return text
}

// bounded returns a Progress that is small enough to be kept: it cuts the message, and
// leaves out outputs that are too large. A state that is too large is a bug of the kind,
// and an error.
func (p Progress) bounded() (Progress, error) {
	if len(p.State) > 0 && (!json.Valid(p.State) || jsonSize(p.State) > stateLimit) {
		return Progress{}, &UnansweredError{errors.New("a bug in the plugin: its state is no JSON, or too large; please report it")}
	}
	switch p.Phase {
	case Running, Successful, Failed:
	default:
		return Progress{}, &UnansweredError{fmt.Errorf("a bug in the plugin: phase %q; please report it", p.Phase)}
	}
	p.Message = bound.Shorten(p.Message, messageLimit)
	p.Outputs, p.dropped = boundedOutputs(p.Outputs, nil)
	return p, nil
}

// boundedOutputs merges outputs over earlier ones, as far as there is room. dropped are
// the names of the outputs that it leaves out.
func boundedOutputs(outputs, earlier map[string]string) (kept map[string]string, dropped []string) {
	kept, size := map[string]string{}, 0
	add := func(name, value string) {
		more := jsonSize(name) + jsonSize(value) + len(":,")
		if jsonSize(value) > outputLimit || size+more > outputsLimit {
			dropped = append(dropped, name)
			return
		}
		kept[name] = value
		size += more
	}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		add(name, outputs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(earlier)) {
		if _, again := outputs[name]; !again {
			add(name, earlier[name])
		}
	}
	return kept, dropped
}

// take adds what an operation has found to the status. It returns the names of outputs
// that are too large to be kept.
func (s *status) take(p Progress) (dropped []string) {
	if len(p.State) > 0 {
		s.State = p.State
	}
	s.Outputs, dropped = boundedOutputs(p.Outputs, s.Outputs)
	return append(dropped, p.dropped...)
}

// jsonSize is the length of a value as JSON, where quotes and control characters take more.
func jsonSize(value any) int {
	if raw, ok := value.(json.RawMessage); ok && len(raw) == 0 {
		return 0
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return statusLimit + 1
	}
	return len(encoded)
}
