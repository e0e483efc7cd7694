// Package presetsource reads the preset of a registration from a ConfigMap or a file.
package presetsource

import (
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// kept is a preset as it was last read. It is safe for concurrent use.
type kept struct {
	// where names the preset for people.
	where  string
	logger hclog.Logger

	mu sync.Mutex
	// read is whether it was ever read, parsed whether text is what was read last.
	read, parsed bool
	text         string
	// last is the last valid preset.
	last *steps.Preset
	err  error
	// said is the failure that was logged last.
	said string
}

// take parses a text that was read, if it has changed, and returns the preset.
func (k *kept) take(text string) (*steps.Preset, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parsed && k.text == text {
		if k.err == nil {
			k.said = ""
		}
		return k.answer()
	}
	k.parsed, k.text = true, text
	preset, err := steps.ReadPreset([]byte(text))
	if err != nil {
		return k.refuse(fmt.Errorf("%s: %w", k.where, err))
	}
	k.read, k.last, k.err, k.said = true, preset, nil, ""
	return k.answer()
}

// wrong records that the object was read and has no preset.
func (k *kept) wrong(cause error) (*steps.Preset, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parsed = false
	return k.refuse(cause)
}

func (k *kept) refuse(cause error) (*steps.Preset, error) {
	k.read, k.err = true, cause
	k.log(cause.Error())
	return k.answer()
}

// unread records that the preset could not be read. It returns the outcome of the last read,
// or an UnreadError if there was none.
func (k *kept) unread(cause error) (*steps.Preset, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read {
		k.log(fmt.Sprintf("%s; the preset as it was last read goes on to serve", cause))
		return k.answer()
	}
	k.log(cause.Error())
	return nil, &steps.UnreadError{Cause: cause}
}

func (k *kept) answer() (*steps.Preset, error) {
	if k.err != nil {
		return nil, k.err
	}
	return k.last, nil
}

// log logs a failure, unless it is the one that was logged last.
func (k *kept) log(text string) {
	if text != k.said {
		k.said = text
		k.logger.Warn("the preset is not as it should be", "error", text)
	}
}

// again returns the outcome of the last read.
func (k *kept) again() (*steps.Preset, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.answer()
}

var _, _ steps.PresetSource = (*File)(nil), (*ConfigMap)(nil)
