package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/lint"
)

// stepSnapshot is what plugin steps need of the cluster.
type stepSnapshot struct {
	// kinds makes the kinds of steps.
	kinds lint.Kinds
	// programs are the files of the registrations that are looked at.
	programs []pluginSnapshot
	// presets are the ConfigMaps with the presets of registrations, by presetsOf.
	presets map[types.NamespacedName]read[[]corev1.ConfigMap]
	// regions are the clusters that presets name.
	regions []regionSnapshot
}

// stepPrograms returns a snapshot for the file of each registration that is looked at.
func stepPrograms(s snapshot) []pluginSnapshot {
	var programs []pluginSnapshot
	for _, e := range s.stepEntries() {
		programs = append(programs, pluginSnapshot{name: e.Name, list: stepPlugins})
	}
	return programs
}

// entries returns what is registered under stepPlugins; none where that cannot be read.
func (s snapshot) entries() ([]lint.Entry, error) {
	if s.controller.config.Value == nil {
		return nil, nil
	}
	return lint.ReadEntries(s.controller.config.Value.Data[stepPlugins], s.steps.kinds)
}

// stepEntries returns the registrations of the step plugin: those that the given Rollout
// uses, or all if none was given.
func (s snapshot) stepEntries() []lint.Entry {
	entries, _ := s.entries()
	return slices.DeleteFunc(entries, func(e lint.Entry) bool {
		used := func(ro *v1alpha1.Rollout) bool { return usesStep(ro, e.Name) }
		return !e.Ours || s.rollout != "" && !slices.ContainsFunc(rolloutsToCheck(s), used)
	})
}

// pluginSteps returns the plugin steps of a Rollout.
func pluginSteps(ro *v1alpha1.Rollout) []*v1alpha1.PluginStep {
	if ro.Spec.Strategy.Canary == nil {
		return nil
	}
	var found []*v1alpha1.PluginStep
	for _, step := range ro.Spec.Strategy.Canary.Steps {
		if step.Plugin != nil {
			found = append(found, step.Plugin)
		}
	}
	return found
}

// usesStep tells whether a Rollout has a step of the plugin of that name.
func usesStep(ro *v1alpha1.Rollout, name string) bool {
	return slices.ContainsFunc(pluginSteps(ro), func(step *v1alpha1.PluginStep) bool { return step.Name == name })
}

// usesSteps tells whether a Rollout has a plugin step that is not registered as another
// plugin's.
func usesSteps(s snapshot, ro *v1alpha1.Rollout) bool {
	entries, _ := s.entries()
	return slices.ContainsFunc(pluginSteps(ro), func(step *v1alpha1.PluginStep) bool {
		return !slices.ContainsFunc(entries, func(e lint.Entry) bool { return e.Name == step.Name && !e.Ours })
	})
}

// checkStepPlugins: the registrations are valid.
func checkStepPlugins(s snapshot) []Result {
	at := s.controller.configObject()
	all, err := s.entries()
	looked := s.stepEntries()
	if err != nil || len(looked) == 0 {
		return nil // plugin-registered says why the list cannot be read
	}
	var results []Result
	for _, p := range lint.CheckEntries(all) {
		if !strings.HasSuffix(p.Path, ".location") && !strings.HasSuffix(p.Path, ".sha256") { // plugin-location says so
			results = append(results, failure(at, p.Path+": "+p.Message, "correct it: "+s.controller.editConfig()))
		}
	}
	for _, e := range looked {
		if preset, err := s.preset(e, ""); err == nil && lint.NeedsHosts(e, preset) {
			results = append(results, failure(at, e.Name+": no host is allowed, so every request is refused", "add --allow-host=HOST to its args, or hosts to its preset: "+s.controller.editConfig()))
		}
	}
	if len(results) == 0 {
		var names []string
		for _, e := range looked {
			names = append(names, fmt.Sprintf("%s (%s)", e.Name, cmp.Or(e.Registration.Kind, "each kind of step")))
		}
		results = append(results, ok(at, "registers "+strings.Join(names, ", ")))
	}
	return results
}

// presetsNamespace returns where the presets are that the steps of a registration name.
func (s snapshot) presetsNamespace(e lint.Entry) string {
	if named := e.Registration.PresetsNamespace; named != "" || s.controller.deployment == nil {
		return cmp.Or(named, s.controller.configNamespace)
	}
	return s.controller.deployment.Namespace
}

// installation is what Rollouts' steps are checked against.
func (s snapshot) installation() lint.Installation {
	entries, err := s.entries()
	config := s.controller.config
	return lint.Installation{Entries: entries, Known: err == nil && (config.Value != nil || config.Err.notFound()), Kinds: s.steps.kinds, Preset: s.preset}
}

// presetsOf returns which presets the steps of a registration have: one, all of a namespace if
// there is no name, or none.
func (s snapshot) presetsOf(e lint.Entry) types.NamespacedName {
	if e.Wrong == nil && e.Registration.Kind == "" {
		return types.NamespacedName{Namespace: s.presetsNamespace(e)}
	}
	return e.Registration.Preset
}

// preset returns the preset that a step of a registration names, or that of the registration,
// which has no name; lint.ErrUnknown if that is not known.
func (s snapshot) preset(e lint.Entry, name string) (*steps.Preset, error) {
	of := s.presetsOf(e)
	if name = cmp.Or(name, of.Name); name == "" {
		return nil, nil
	}
	found, asked := s.steps.presets[of]
	if !asked || found.Err != nil {
		return nil, lint.ErrUnknown
	}
	for _, configMap := range found.Value {
		if configMap.Name == name {
			return s.presetIn(e, configMap)
		}
	}
	if of.Name != "" {
		return nil, errors.New("does not exist")
	}
	return nil, fmt.Errorf("there is no ConfigMap %s/%s with the label %s: \"true\"", of.Namespace, name, steps.PresetLabel)
}

// presetIn reads the preset in a ConfigMap.
func (s snapshot) presetIn(e lint.Entry, configMap corev1.ConfigMap) (*steps.Preset, error) {
	text, has := configMap.Data[steps.PresetKey]
	if !has {
		return nil, fmt.Errorf("has no data[%q]", steps.PresetKey)
	}
	preset, err := steps.ReadPreset([]byte(text))
	if err == nil {
		err = s.installation().CheckPreset(e, preset)
	}
	if err != nil {
		return nil, fmt.Errorf("data[%q]: %w", steps.PresetKey, err)
	}
	return preset, nil
}

// checkPresets: the presets exist, and are valid.
func checkPresets(s snapshot) []Result {
	var results []Result
	const waits = "steps that begin with it wait until they time out"
	seen := map[types.NamespacedName]bool{{}: true}
	for _, e := range s.stepEntries() {
		of := s.presetsOf(e)
		if e.Wrong != nil || seen[of] {
			continue
		}
		seen[of] = true
		found := s.steps.presets[of]
		at, is := object("ConfigMap", of.Namespace, of.Name), "is the preset of "+e.Name
		if of.Name == "" {
			at, is = "Namespace "+of.Namespace, "is a preset of steps of "+e.Name
		}
		if found.Err != nil {
			results = append(results, couldNotLook(at, found.Err))
		} else if of.Name != "" && len(found.Value) == 0 {
			results = append(results, failure(at, fmt.Sprintf("%s, and does not exist: %s", is, waits),
				fmt.Sprintf("create it with the preset under data[%q], or correct --preset in the args of %s in %s", steps.PresetKey, e.Name, s.controller.configObject())))
		}
		for _, configMap := range found.Value {
			at := object("ConfigMap", of.Namespace, configMap.Name)
			if _, err := s.presetIn(e, configMap); err != nil {
				results = append(results, failure(at, fmt.Sprintf("%s, and %v: %s", is, err, waits),
					fmt.Sprintf("correct it: kubectl -n %s edit configmap %s", of.Namespace, configMap.Name)))
			} else {
				results = append(results, ok(at, is))
			}
		}
	}
	return results
}

// checkSteps: a Rollout's plugin steps are valid for their plugins.
func checkSteps(r subject) []Result {
	if len(pluginSteps(r.ro)) == 0 {
		return nil
	}
	at := object("Rollout", r.ro.Namespace, r.ro.Name)
	installation := r.installation()
	found := installation.CheckRollout(r.ro)
	var results []Result
	for _, p := range found.Problems {
		remedy := "correct it: " + editRollout(r.ro)
		if strings.Contains(p.Message, lint.Waits) {
			remedy = "correct the preset, as step-plugin-preset says, or what the step uses: " + editRollout(r.ro)
		}
		if strings.HasSuffix(p.Path, ".plugin.name") && r.manifest == nil {
			remedy = fmt.Sprintf("correct the name, or the registration: %s; or %s", r.controller.editConfig(), editRollout(r.ro))
		}
		results = append(results, failure(at, p.Path+": "+p.Message, remedy))
	}
	for _, p := range found.Disabled {
		results = append(results, warning(at, p.Path+": "+p.Message, "take disabled out of the preset, or the step out: "+editRollout(r.ro)))
	}
	for _, e := range installation.Entries {
		if e.Disabled && usesStep(r.ro, e.Name) {
			results = append(results, warning(at, e.Name+" is disabled: Argo Rollouts passes over its steps, as if they had succeeded",
				fmt.Sprintf("take disabled out of %s, %s, and restart the controller: %s; or take the steps out", e.Path(), r.controller.configObject(), r.controller.restartCommand())))
		}
	}
	if len(results) == 0 {
		results = append(results, ok(at, fmt.Sprintf("has %s, of which %d were read with the registration", count(found.Steps, "plugin step"), found.Checked)))
	}
	return results
}

// gatherPresets reads the presets of registrations.
func gatherPresets(ctx context.Context, c *cluster, s snapshot) map[types.NamespacedName]read[[]corev1.ConfigMap] {
	presets := map[types.NamespacedName]read[[]corev1.ConfigMap]{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, e := range s.stepEntries() {
		of := s.presetsOf(e)
		if e.Wrong != nil || of == (types.NamespacedName{}) {
			continue
		}
		wg.Go(func() {
			all := target{version: "v1", resource: "configmaps", namespace: of.Namespace}
			var found read[[]corev1.ConfigMap]
			if of.Name == "" {
				all.query = map[string]string{"labelSelector": steps.PresetLabel + "=true"}
				found = list[corev1.ConfigMap](ctx, c, all)
			} else {
				all.name = of.Name
				if one := get[corev1.ConfigMap](ctx, c, all); one.Err == nil {
					found.Value = []corev1.ConfigMap{one.Value}
				} else if !one.Err.notFound() {
					found.Err = one.Err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			presets[of] = found
		})
	}
	wg.Wait()
	return presets
}
