package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
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
	// access says which access the kinds of step need, and whether the controller's
	// ServiceAccount has it.
	access []stepAccess
	// regions are the clusters that presets name.
	regions []regionSnapshot
}

type stepAccess struct {
	// kind is the kind of step; empty for the access that every kind needs.
	kind   string
	access []access
	// grants is the file that grants it, in deploy, without .yaml; empty for that of the kind.
	grants string
}

// stepPrograms returns a snapshot for the file of each registration that is looked at.
func stepPrograms(s snapshot) []pluginSnapshot {
	var programs []pluginSnapshot
	for _, e := range s.stepEntries() {
		programs = append(programs, pluginSnapshot{router: router{name: e.Name, asset: "rollouts-plugin-step", step: true}})
	}
	return programs
}

// entries returns what is registered under stepPlugins; none where that cannot be read.
func (s snapshot) entries() ([]lint.Entry, error) {
	if s.controller.config.Value == nil || s.steps.kinds == nil {
		return nil, nil
	}
	return lint.ReadEntries(s.controller.config.Value.Data[stepPlugins], s.steps.kinds)
}

// stepEntries returns the registrations of the step plugin: those that the given Rollout
// uses, or all if none was given.
func (s snapshot) stepEntries() []lint.Entry {
	entries, _ := s.entries()
	var used []string
	if s.rollout != "" {
		for _, ro := range rolloutsToCheck(s) {
			used = append(used, stepNames(ro)...)
		}
	}
	return slices.DeleteFunc(entries, func(e lint.Entry) bool { return !e.Ours || s.rollout != "" && !slices.Contains(used, e.Name) })
}

// stepNames returns the names of the plugins of a Rollout's steps.
func stepNames(ro *v1alpha1.Rollout) []string {
	if ro.Spec.Strategy.Canary == nil {
		return nil
	}
	var names []string
	for _, step := range ro.Spec.Strategy.Canary.Steps {
		if step.Plugin != nil {
			names = append(names, step.Plugin.Name)
		}
	}
	return names
}

// usesSteps tells whether a Rollout has a plugin step that is not registered as another
// plugin's.
func usesSteps(s snapshot, ro *v1alpha1.Rollout) bool {
	names := stepNames(ro)
	if len(names) == 0 {
		return false
	}
	entries, _ := s.entries()
	return slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(entries, func(e lint.Entry) bool { return e.Name == name && !e.Ours })
	})
}

// checkStepPlugins: the registrations are valid.
func checkStepPlugins(s snapshot) []Result {
	c := s.controller
	if c.config.Value == nil {
		return nil // plugin-registered says why, or rollout-steps that the name is not known
	}
	at := c.configObject()
	edit := fmt.Sprintf("correct it: kubectl -n %s edit configmap %s, then %s", c.configNamespace, configMapName, c.restartCommand())
	all, err := s.entries()
	switch {
	case err != nil && len(s.plugins) > 0:
		return nil // plugin-registered says so
	case err != nil:
		return []Result{failure(at, fmt.Sprintf("data.%s: %v", stepPlugins, err), edit)}
	}
	looked := s.stepEntries()
	if len(looked) == 0 {
		return nil
	}
	var results []Result
	for _, p := range lint.CheckEntries(all) {
		if !strings.HasSuffix(p.Path, ".location") && !strings.HasSuffix(p.Path, ".sha256") { // plugin-location says so
			results = append(results, failure(at, p.Path+": "+p.Message, edit))
		}
	}
	for _, e := range looked {
		preset, err := s.preset(e, "")
		if err == nil && lint.NeedsHosts(e, preset) {
			results = append(results, failure(at, fmt.Sprintf("%s: no host is allowed, so every request is refused", e.Name),
				fmt.Sprintf("add --allow-host=HOST to its args, or hosts to its preset: kubectl -n %s edit configmap %s, then %s", c.configNamespace, configMapName, c.restartCommand())))
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

// checkStepAccess: the controller's ServiceAccount has the access that steps need.
func checkStepAccess(s snapshot) []Result {
	c := s.controller
	if c.deployment == nil {
		return nil
	}
	namespace, name := serviceAccountOf(c.deployment)
	var results []Result
	for _, of := range s.steps.access {
		file, steps := "every-kind", "steps"
		if of.kind != "" {
			file, steps = of.kind, "steps of the kind "+of.kind
		}
		file = cmp.Or(of.grants, "rbac-step/"+file)
		remedy := fmt.Sprintf("kubectl apply -f deploy/%s.yaml (%s.yaml of a release), with the subject ServiceAccount %s/%s", file, strings.ReplaceAll(file, "/", "-"), namespace, name)
		if of.kind == "resource" {
			remedy = fmt.Sprintf("bind a Role for it, as under \"A Role for each kind of object\" in docs/steps-admin.md, to the ServiceAccount %s/%s", namespace, name)
		}
		for _, result := range accessResults(c, of.access, "so they do not work", remedy) {
			result.Message = steps + ": " + result.Message
			results = append(results, result)
		}
	}
	return results
}

// checkSteps: a Rollout's plugin steps are valid for their plugins.
func checkSteps(r subject) []Result {
	names := stepNames(r.ro)
	if len(names) == 0 {
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
		if strings.HasSuffix(p.Path, ".plugin.name") {
			remedy = fmt.Sprintf("correct the name, or the registration: kubectl -n %s edit configmap %s, then %s; or %s", r.controller.configNamespace, configMapName, r.controller.restartCommand(), editRollout(r.ro))
		}
		results = append(results, failure(at, p.Path+": "+p.Message, remedy))
	}
	for _, p := range found.Disabled {
		results = append(results, warning(at, p.Path+": "+p.Message, "take disabled out of the preset, or the step out: "+editRollout(r.ro)))
	}
	for _, e := range installation.Entries {
		if e.Disabled && slices.Contains(names, e.Name) {
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

// gatherStepAccess asks whether the controller has the access that registered kinds need.
func gatherStepAccess(ctx context.Context, c *cluster, s snapshot) []stepAccess {
	needs := stepNeeds(s)
	if s.controller.deployment == nil {
		return nil
	}
	for i := range needs {
		needs[i].access = gatherControllerAccess(ctx, c, s.controller.deployment, needs[i].access)
	}
	return needs
}

// kindsInUse returns the kinds of the steps that Rollouts have of a registration without a
// kind, and those that its args name.
func (s snapshot) kindsInUse(e lint.Entry) []string {
	used := slices.Clone(e.Registration.AllowKinds)
	for _, ro := range rolloutsToCheck(s) {
		if ro.Spec.Strategy.Canary == nil {
			continue
		}
		for _, step := range ro.Spec.Strategy.Canary.Steps {
			if step.Plugin == nil || step.Plugin.Name != e.Name {
				continue
			}
			var keys map[string]json.RawMessage
			var name string
			_ = json.Unmarshal(step.Plugin.Config, &keys) // rollout-steps says what is wrong with it
			_ = json.Unmarshal(keys["use"], &name)
			preset := &steps.Preset{}
			if name != "" {
				if found, err := s.preset(e, name); err == nil {
					preset = found
				}
			}
			for _, kind := range kinds.Names(s.steps.kinds(kinds.Options{})) {
				if keys[kind] != nil || preset.Defaults[kind] != nil {
					used = append(used, kind)
				}
			}
		}
	}
	return used
}

// stepNeeds returns the access that the step plugin needs for Rollouts of the namespace, for
// each kind that is registered or in use. deploy/rbac-step grants it.
func stepNeeds(s snapshot) []stepAccess {
	namespace, entries := s.namespace, s.stepEntries()
	if len(entries) == 0 {
		return nil
	}
	const (
		silent   = "what steps wait for is in the controller's log alone"
		oldImage = "steps that refer to the images of the stable version time out"
		unseen   = "presets are read every 30 seconds"
	)
	every := []access{{verb: "create", resource: "events", namespace: namespace, without: silent}}
	presets := map[string]bool{}
	watched := map[string]string{} // by kind
	var needed []string
	created := map[string]bool{} // resources
	for _, e := range entries {
		if e.Wrong != nil {
			continue
		}
		in, of := e.Registration.Preset.Namespace, []string{e.Registration.Kind}
		if e.Registration.Kind == "" {
			in, of = s.presetsNamespace(e), s.kindsInUse(e)
			every = append(every,
				access{verb: "list", resource: "configmaps", namespace: in, without: unseen},
				access{verb: "watch", resource: "configmaps", namespace: in, without: unseen})
		}
		if in != "" && !presets[in] {
			presets[in] = true
			every = append(every, access{verb: "get", resource: "configmaps", namespace: in, without: "steps with a preset in namespace " + in + " time out"})
		}
		for _, kind := range of {
			if !slices.Contains(needed, kind) {
				needed = append(needed, kind)
			}
			watched[kind] = e.Registration.WatchNamespace
			for _, allowed := range e.Registration.AllowResources {
				created[allowed.GuessResource()] = created[allowed.GuessResource()] || kind == "resource"
			}
		}
	}
	needs := []stepAccess{{access: every}}
	if of := regionNeeds(s); len(of) > 0 {
		needs = append(needs, stepAccess{kind: "rollouts", access: of, grants: "rbac-regions/secrets"})
	}
	at := func(verb, resource, without string) access {
		return access{verb: verb, resource: resource, namespace: namespace, without: without}
	}
	for _, kind := range needed {
		of := stepAccess{kind: kind}
		switch kind {
		case "http":
			of.access = []access{
				at("get", "secrets", "steps that refer to a Secret time out"),
				at("get", "configmaps", "steps that refer to the certificates of a CA in a ConfigMap time out"),
				at("get", "replicasets.apps", oldImage),
			}
		case "job":
			of.access = []access{
				at("create", "jobs.batch", ""), at("get", "jobs.batch", ""), at("delete", "jobs.batch", ""),
				at("get", "cronjobs.batch", "steps that run the Job of a CronJob time out"),
				at("list", "jobs.batch", "the Job of a revision that another has replaced runs on until it expires"),
				at("list", "pods", "messages do not say what a Job waits for, and Jobs have no outputs"),
				at("get", "pods/log", "messages lack the last lines of a Job that has failed"),
				at("list", "events", "messages do not say why a Job has no pod"),
				at("get", "replicasets.apps", oldImage),
			}
		case "resource":
			for _, resource := range slices.Sorted(maps.Keys(created)) {
				for _, verb := range []string{"create", "get", "list", "delete"} {
					if created[resource] {
						of.access = append(of.access, at(verb, resource, ""))
					}
				}
			}
			of.access = append(of.access, at("get", "replicasets.apps", oldImage))
		case "rollouts":
			const unwatched = "steps read each Rollout that they name anew, and those with a selector time out"
			of.access = []access{
				at("get", "rollouts.argoproj.io", ""), at("list", "pods", ""),
				{verb: "list", resource: "rollouts.argoproj.io", namespace: watched[kind], without: unwatched},
				{verb: "watch", resource: "rollouts.argoproj.io", namespace: watched[kind], without: unwatched},
			}
		}
		needs = append(needs, of)
	}
	return needs
}
