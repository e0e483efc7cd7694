package lint

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
)

// Installation is what Rollouts are checked against.
type Installation struct {
	// Entries are the registrations; Known is whether they are known.
	Entries []Entry
	Known   bool
	// Preset returns the preset that a step of a registration names, or that of the
	// registration, which has no name. It returns ErrUnknown if it does not know whether there
	// is one; another error says what is wrong with the preset.
	Preset func(e Entry, name string) (*steps.Preset, error)
	Kinds  Kinds
}

// Waits says what a step does whose preset cannot be used.
const Waits = "so that the step waits until it times out"

// ErrUnknown is the error about a preset of which nothing is known.
var ErrUnknown = errors.New("is not known")

// Rollout is the result of checking a Rollout's plugin steps.
type Rollout struct {
	Problems []Problem
	// Unchecked says which configurations were not checked, and why.
	Unchecked []Problem
	// Disabled says which steps start nothing.
	Disabled []Problem
	// Steps is the number of plugin steps, Checked the number of those whose configuration
	// was read by its kind.
	Steps, Checked int
}

// pluginStep is a plugin step of a Rollout.
type pluginStep struct {
	index int
	path  string
	id    string
	// config is the step's configuration in the Rollout, merged over the preset's.
	config map[string]any
}

// CheckRollout returns what is wrong with a Rollout's plugin steps.
func (i Installation) CheckRollout(ro *v1alpha1.Rollout) Rollout {
	var found Rollout
	if ro.Spec.Strategy.Canary == nil {
		return found
	}
	var all []pluginStep
	for index, step := range ro.Spec.Strategy.Canary.Steps {
		if step.Plugin == nil {
			continue
		}
		found.Steps++
		all = append(all, i.checkStep(ro, index, step.Plugin, &found))
	}
	if len(all) > 0 && ro.Spec.Strategy.Canary.Steps[0].Pause != nil {
		found.Problems = append(found.Problems, pausesFirst)
	}
	found.Problems = append(found.Problems, duplicates(all)...)
	found.Problems = append(found.Problems, references(all)...)
	return found
}

// pausesFirst is about cleanStatusForRetry in rollout/stepplugin.go of argo-rollouts v1.10.1:
// it clears the plugin steps of an aborted canary when the retried canary is at its first
// step, and it is not called while that step is a pause.
var pausesFirst = Problem{"spec.strategy.canary.steps[0]", "a canary with plugin steps must not begin with a pause: after an abort and a retry Argo Rollouts takes the plugin steps of the canary before for those of the new one, and skips them; begin with setWeight or setCanaryScale"}

func (i Installation) checkStep(ro *v1alpha1.Rollout, index int, step *v1alpha1.PluginStep, found *Rollout) pluginStep {
	at := fmt.Sprintf("spec.strategy.canary.steps[%d].plugin", index)
	s := pluginStep{index: index, path: at + ".config", id: strconv.Itoa(index)}
	fail := func(path, format string, args ...any) {
		found.Problems = append(found.Problems, Problem{path, fmt.Sprintf(format, args...)})
	}
	unchecked := func(format string, args ...any) {
		found.Unchecked = append(found.Unchecked, Problem{s.path, fmt.Sprintf(format, args...)})
	}
	s.take(steps.Merged(step.Config, &steps.Preset{}))
	entry := entryOf(i.Entries, step.Name)
	isGuess := entry == nil && !i.Known && step.Name == DefaultName
	if isGuess { // what authors write is the same wherever it is registered
		entry = &Entry{Ours: true}
		entry.Name = step.Name
	}
	switch {
	case !namePattern.MatchString(step.Name):
		fail(at+".name", "%q is not of the form <namespace>/<name>", step.Name)
		return s
	case entry == nil && i.Known:
		fail(at+".name", "%s is not registered under %s of %s%s", step.Name, ListKey, ConfigMapName, i.meant(step.Name))
		return s
	case entry == nil:
		unchecked("%s with the registration of %s is not known", ConfigMapName, step.Name)
		return s
	case !entry.Ours:
		unchecked("%s is another step plugin", step.Name)
		return s
	case entry.Wrong != nil:
		fail(at+".name", "%s is registered with args that are wrong: %v", step.Name, entry.Wrong)
		return s
	}
	reader := i.reader(*entry)
	of, preset := "the preset of "+step.Name, &steps.Preset{}
	settings, err := reader.ReadConfig(ro, step.Config, func(name string) (*steps.Preset, error) {
		if name != "" {
			of = "the preset " + name
		} else if own := entry.Registration.Preset; own.Name == "" {
			return preset, nil
		} else {
			of = fmt.Sprintf("the preset %s of %s", own, step.Name)
		}
		if isGuess {
			return nil, ErrUnknown
		}
		found, err := i.Preset(*entry, name)
		switch {
		case errors.Is(err, ErrUnknown):
			return nil, err
		case err != nil:
			return nil, &steps.PresetError{Cause: err}
		}
		preset = found
		if ro.Namespace == "" { // kustomize may set it later
			everywhere := *found
			everywhere.Namespaces = nil
			return &everywhere, nil
		}
		return found, nil
	})
	s.take(steps.Merged(step.Config, preset))
	var unusable *steps.PresetError
	switch {
	case errors.Is(err, ErrUnknown):
		unchecked("%s is not known", of)
		return s
	case errors.As(err, &unusable):
		fail(s.path, "%s cannot be used, %s: %v", of, Waits, err)
		return s
	case isGuess && (err == nil || errors.As(err, new(*steps.Error))): // its host is not allowed
		unchecked("%s with the registration of %s is not known, which says what is allowed", ConfigMapName, step.Name)
	case err != nil:
		fail(s.path, "%v", err)
		return s
	default:
		found.Checked++
	}
	if preset.Disabled {
		found.Disabled = append(found.Disabled, Problem{s.path, of + " is disabled: the step starts nothing, and succeeds"})
	}
	if _, err := settings.TimeoutFor(ro); err != nil {
		fail(s.path, "%v", err)
	}
	return s
}

// take stores a configuration.
func (s *pluginStep) take(config map[string]any) {
	s.config = config
	if id, ok := config["id"].(string); ok && id != "" {
		s.id = id
	}
}

func (i Installation) meant(name string) string {
	var names []string
	for _, entry := range i.Entries {
		names = append(names, entry.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", nearest.Word(name, names))
}

// reader returns what reads the steps of a registration, without access to a cluster.
func (i Installation) reader(e Entry) steps.Reader {
	all := i.Kinds(kinds.Options{
		Registration: e.Registration, Logger: hclog.NewNullLogger(),
		Connect: func() (*rest.Config, error) { return nil, errors.New("there is no cluster") },
	})
	return steps.Reader{Name: e.Name, Kind: kinds.Named(all, e.Registration.Kind), Kinds: all, AllowKinds: e.Registration.AllowKinds}
}

// CheckPreset returns what is wrong with a preset, of a registration or for steps that name
// it.
func (i Installation) CheckPreset(e Entry, preset *steps.Preset) error {
	return i.reader(e).Check(preset)
}

// duplicates returns a problem for each step with the id of an earlier step.
func duplicates(all []pluginStep) []Problem {
	var problems []Problem
	first := map[string]int{}
	for _, s := range all {
		if earlier, twice := first[s.id]; twice {
			problems = append(problems, Problem{s.path, fmt.Sprintf("id %q: step %d of the Rollout has the same id; give each step its own", s.id, earlier+1)})
			continue
		}
		first[s.id] = s.index
	}
	return problems
}
