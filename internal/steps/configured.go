package steps

// configured is a step as its configuration has it now.
type configured struct {
	// kind is the name of the step's kind, preset that of its preset; empty for none.
	kind, preset string
	// step is nil if the configuration cannot be read.
	step Step
	// settings are the keys that all kinds have. If the preset cannot be used, they are those
	// of the Rollout that count nevertheless.
	settings Settings
	// outdated is what is wrong with the present preset, if step was read with a former one.
	outdated error
	// disabled says why the step starts nothing and succeeds; empty for a step that works.
	disabled string
}
