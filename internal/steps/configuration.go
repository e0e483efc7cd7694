package steps

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
)

// step reads the configuration of a step. One that may have been started goes on with a
// preset of before where the present one cannot be read, is wrong or no longer suits it: it
// has to be asked after, cancelled and undone.
func (p *Plugin) step(ctx context.Context, config json.RawMessage, started bool) (Step, error) {
	if p.opts.Presets == nil {
		return p.read(&Preset{}, config)
	}
	preset, err := p.opts.Presets.Preset(ctx)
	if err == nil {
		var step Step
		if step, err = p.read(preset, config); err == nil {
			p.former.note(preset)
			return step, nil
		}
	}
	if !started {
		return nil, err
	}
	for _, preset := range p.former.all() {
		if step, err := p.read(preset, config); err == nil {
			return step, nil
		}
	}
	return nil, err
}

// read is ReadConfig, with a panic as an error.
func (p *Plugin) read(preset *Preset, config json.RawMessage) (step Step, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			step, err = nil, panicError(p.opts.Logger, "while the configuration of a step is read", cause)
		}
	}()
	return ReadConfig(p.opts.Kind, preset, config)
}

// ReadConfig reads what a Rollout configures of a step, over a preset. The error names the
// key. It makes no request.
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

// formerPresets is how many presets are kept for steps that were started with them.
const formerPresets = 5

// former keeps the presets with which steps could be read, the last one first.
type former struct {
	mu      sync.Mutex
	presets []*Preset
}

func (f *former) note(preset *Preset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.presets, func(p *Preset) bool { return reflect.DeepEqual(p, preset) }); i >= 0 {
		f.presets = slices.Delete(slices.Clone(f.presets), i, i+1)
	}
	f.presets = append([]*Preset{preset}, f.presets...)
	f.presets = f.presets[:min(len(f.presets), formerPresets)]
}

func (f *former) all() []*Preset {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.presets)
}
