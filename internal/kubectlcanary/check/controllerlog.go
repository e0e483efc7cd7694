package check

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// logEntry is a line of the controller's log, which is logfmt by default and
// JSON with --logformat json.
type logEntry struct {
	time                       time.Time
	level, message             string
	namespace, rollout, errors string
}

var logField = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*"|\S*)`)

// parseLogLine reads a line. A line in another format is all message.
func parseLogLine(line string) logEntry {
	fields := map[string]string{}
	if strings.HasPrefix(line, "{") {
		var values map[string]any
		if err := json.Unmarshal([]byte(line), &values); err == nil {
			for key, value := range values {
				if text, isText := value.(string); isText {
					fields[key] = text
				}
			}
		}
	} else {
		for _, match := range logField.FindAllStringSubmatch(line, -1) {
			value := match[2]
			if unquoted, err := strconv.Unquote(value); err == nil {
				value = unquoted
			}
			if _, seen := fields[match[1]]; !seen {
				fields[match[1]] = value
			}
		}
	}
	if fields["msg"] == "" {
		return logEntry{message: line}
	}
	at, err := time.Parse(time.RFC3339, fields["time"])
	if err != nil {
		at = time.Time{}
	}
	return logEntry{time: at, level: fields["level"], message: fields["msg"], namespace: fields["namespace"], rollout: fields["rollout"], errors: fields["error"]}
}

// complaint is the last thing the controller said about a Rollout that it could
// not carry out.
type complaint struct {
	time    time.Time
	message string
}

// lastComplaint returns the last complaint about a Rollout, from its Events or the
// controller's log; the message is empty if there is none. It may be out of date:
// callers ask only when the state is not as it should be.
func lastComplaint(s snapshot, ro *v1alpha1.Rollout) complaint {
	rollout := ro.Name
	// Anything earlier is about another Rollout that had the same name.
	last := complaint{time: ro.CreationTimestamp.Time}
	for _, event := range s.objects.events.Value {
		if event.InvolvedObject.Kind != "Rollout" || event.InvolvedObject.Name != rollout {
			continue
		}
		at := event.LastTimestamp.Time
		if event.Series != nil && event.Series.LastObservedTime.After(at) {
			at = event.Series.LastObservedTime.Time
		}
		if at.IsZero() {
			at = event.EventTime.Time
		}
		if !at.Before(last.time) {
			last = complaint{at, event.Message}
		}
	}
	for _, lines := range s.controller.logs {
		for _, line := range lines {
			if !strings.Contains(line, rollout) || !strings.Contains(line, "error") {
				continue
			}
			entry := parseLogLine(line)
			if entry.level != "error" || entry.rollout != rollout || entry.namespace != s.namespace {
				continue
			}
			// A conflict is normal: the controller reads again and retries.
			if strings.Contains(entry.message, "the object has been modified") {
				continue
			}
			if !entry.time.Before(last.time) {
				last = complaint{entry.time, entry.message}
				if entry.errors != "" && !strings.Contains(entry.message, entry.errors) {
					last.message += ": " + entry.errors
				}
			}
		}
	}
	return last
}
