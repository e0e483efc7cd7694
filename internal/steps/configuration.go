package steps

import (
	"context"
	"encoding/json"
)

// step reads the configuration of an attempt at a step. If the present preset cannot be
// read, is wrong or no longer suits the configuration, an attempt that may have been
// started goes on with the preset that it was last read with: its work has to be polled,
// cancelled and undone. outdated then says what is wrong with the present preset: such an
// attempt makes no new Start.
func (p *Plugin) step(ctx context.Context, attempt string, config json.RawMessage, started bool) (step Step, outdated, err error) {
	if p.opts.Presets == nil {
		step, err = p.read(&Preset{}, config)
		return step, nil, err
	}
	preset, err := p.opts.Presets.Preset(ctx)
	if err == nil {
		if step, err = p.read(preset, config); err == nil {
			p.former.note(presetKey(attempt, config), preset)
			return step, nil, nil
		}
	}
	if former, ok := p.former.of(presetKey(attempt, config)); started && ok {
		if step, formerErr := p.read(former, config); formerErr == nil {
			return step, err, nil
		}
	}
	return nil, nil, err
}

// read is ReadConfig, and returns a panic as an error.
func (p *Plugin) read(preset *Preset, config json.RawMessage) (step Step, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			step, err = nil, panicError(p.opts.Logger, "while the configuration of a step is read", cause)
		}
	}()
	return ReadConfig(p.opts.Kind, preset, config)
}

// ReadConfig reads the configuration that a Rollout gives a step, merged over a preset's
// defaults. The error names the key. It makes no request.
func ReadConfig(kind Kind, preset *Preset, config json.RawMessage) (Step, error) {
	source, err := preset.apply(config)
	if err != nil {
		return nil, err
	}
	step, err := kind.Parse(source)
	if err != nil {
		return nil, err
	}
	return step, step.Settings().Validate()
}

// presetKey is the key in Plugin.former of the preset that an attempt was read with. A
// user who may edit a Rollout may edit its status too: an attempt that this process does
// not know, or another configuration, must not bring back a former preset, in which an
// admin may have closed a hole since.
func presetKey(attempt string, config json.RawMessage) string {
	return hashOf(attempt, string(config))
}
