package steps

import (
	"encoding/json"
	"errors"
)

// Stored is what a step has stored in the status of its Rollout, for people who look at it.
type Stored struct {
	Kind, ID, Preset string
	// Attempt counts from 1.
	Attempt int32
	// Outcome is what the present attempt has done outside, and what an abort is about: NotDone
	// of one that has failed. Of one that has not ended it may be more by now.
	Outcome Outcome
}

// ReadStored reads the status of a step in status.canary.stepPluginStatuses. The error is that
// of a status that another plugin has written.
func ReadStored(raw json.RawMessage) (Stored, error) {
	s, err := readStatus(raw)
	if err != nil {
		return Stored{}, err
	}
	if s == nil {
		return Stored{}, errors.New("the step has stored nothing")
	}
	return Stored{Kind: s.Kind, ID: s.ID, Preset: s.Preset, Attempt: s.Attempt, Outcome: s.outcome()}, nil
}
