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

// stage says what a step's next call does.
type stage string

const (
	// stageNew: it starts the work. As answers get lost, that may have been done before.
	stageNew stage = "New"
	// stageAnnounced: it starts the work, as the call before has said. Only a step whose work
	// must not be started twice has this stage; one with stageNew was not started.
	stageAnnounced stage = "Announced"
	// stageRunning: it polls the work, which was started.
	stageRunning stage = "Running"
	// stageFailing and stageRetrying: it cancels the work, as the step or the attempt has
	// failed. If the call that finds a failure also cancelled the work, and its answer got
	// lost, work that was cancelled could be started again.
	stageFailing  stage = "Failing"
	stageRetrying stage = "Retrying"
	// stageDone and stageFailed: there is none, the step has succeeded or failed.
	stageDone   stage = "Done"
	stageFailed stage = "Failed"
)

var stages = []stage{stageNew, stageAnnounced, stageRunning, stageFailing, stageRetrying, stageDone, stageFailed}

// status is what a step keeps in status.canary.stepPluginStatuses[].status. It holds no
// secrets: everyone who may read the Rollout can read it. It is not trusted: everyone who
// may edit the Rollout can change it.
type status struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Preset string `json:"preset,omitempty"`
	// Key tells the step's run in this canary from others of its Rollout.
	Key   string `json:"key"`
	Index int32  `json:"index"`
	// Started is when the first Run was made.
	Started time.Time `json:"started"`
	// Called is when the last Run was made, and Elapsed how much of the timeout is used.
	Called  time.Time     `json:"called"`
	Elapsed time.Duration `json:"elapsed"`
	// Timeout is the one with which the step was begun.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Attempt counts from 1.
	Attempt int32 `json:"attempt"`
	Stage   stage `json:"stage"`
	// Process has written this.
	Process string `json:"process"`
	sends
	// Outcome is what the work of a failing attempt has done.
	Outcome Outcome `json:"outcome,omitempty"`
	// Failure is what went wrong last.
	Failure string `json:"failure,omitempty"`
	// Waiting is the hash of what the last Event said the step waits for.
	Waiting string            `json:"waiting,omitempty"`
	State   json.RawMessage   `json:"state,omitempty"`
	Outputs map[string]string `json:"outputs,omitempty"`
}

// sends is what is known of an attempt's Starts that may have been carried out.
type sends struct {
	// Sends is how many there were.
	Sends int32 `json:"sends,omitempty"`
	// Resend is how much of the timeout has to be used before there is another one.
	Resend time.Duration `json:"resend,omitempty"`
}

// join adds what else is known of the same Starts.
func (s *sends) join(other sends) {
	s.Sends, s.Resend = max(s.Sends, other.Sends), max(s.Resend, other.Resend)
}

// outcome is what the Starts of the attempt have done, as far as the status tells.
func (s *status) outcome() Outcome {
	switch {
	case s.Stage == stageRunning, s.Stage == stageDone:
		return Done
	case s.Stage == stageFailing, s.Stage == stageRetrying:
		return s.Outcome
	case s.Stage == stageFailed:
		return NotDone
	case s.Sends > 0:
		return MayBeDone
	}
	return NotDone
}

// label is what messages about the step begin with: it tells the steps of a Rollout apart
// if all have the same plugin name.
func (s *status) label() string {
	switch {
	case s.Preset != "":
		return s.Preset
	case s.ID != strconv.Itoa(int(s.Index)):
		return s.ID
	}
	return fmt.Sprintf("step %d", s.Index+1)
}

// event is the message of an Event about the step.
func (s *status) event(format string, args ...any) string {
	message := fmt.Sprintf(format, args...)
	if label := s.label(); label != fmt.Sprintf("step %d", s.Index+1) {
		return fmt.Sprintf("%s: step %d: %s", label, s.Index+1, message)
	}
	return fmt.Sprintf("step %d: %s", s.Index+1, message)
}

var (
	keyPattern    = regexp.MustCompile(`^[0-9a-f]{32}$`)
	presetPattern = regexp.MustCompile(`^[a-z0-9./-]{0,320}$`)
)

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
		presetPattern.MatchString(s.Preset) && s.Sends >= 0 && s.Resend >= 0 && s.Timeout >= 0 && s.Outcome >= NotDone && s.Outcome <= Done &&
		jsonSize(s.State) <= stateLimit && jsonSize(s.Outputs) <= 2*outputsLimit
}

// write returns the status as JSON, of at most 4 KiB: it shortens the failure if there is no
// room. All else is bounded when it is set.
func (s *status) write() json.RawMessage {
	less := *s
	text, _ := json.Marshal(less)
	for len(text) > statusLimit && len(less.Failure) > len("……") {
		less.Failure = bound.Shorten(less.Failure, len(less.Failure)/2)
		text, _ = json.Marshal(less)
	}
	return text
}

// bounded returns a Progress that is small enough to be kept: it cuts the message, and
// leaves out outputs that are too large. A state that is too large is a bug of the kind,
// and an error.
func (p Progress) bounded() (Progress, error) {
	if len(p.State) > 0 && (!json.Valid(p.State) || jsonSize(p.State) > stateLimit) {
		return Progress{}, &Error{Outcome: MayBeDone, Cause: errors.New("a bug in the plugin: its state is no JSON, or too large; please report it")}
	}
	switch p.Phase {
	case Running, Successful, Failed:
	default:
		return Progress{}, &Error{Outcome: MayBeDone, Cause: fmt.Errorf("a bug in the plugin: phase %q; please report it", p.Phase)}
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
