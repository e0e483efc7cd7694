package check

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// call is a kind of step that takes a url.
type call string

func (k call) Name() string { return string(k) }

func (call) Parse(source steps.Source) (steps.Step, error) {
	var config struct {
		URL string `json:"url,omitempty"`
	}
	if err := strict.Decode(source.Config, &config); err != nil {
		return nil, err
	}
	return callStep{}, nil
}

// callStep makes no operation here.
type callStep struct{ steps.Step }

func calls(kinds.Options) []steps.Kind {
	return []steps.Kind{call("http"), call("job"), call("resource"), call("rollouts")}
}

const stepLocation = "https://github.com/kedify/argo-rollouts-plugin/releases/download/v0.2.0/rollouts-plugin-step-linux-amd64"

const stepList = `
- {name: acme/e2e, location: "` + stepLocation + `", sha256: ` + sum + `, args: [http, --preset=argo-rollouts/e2e]}
- {name: acme/run-job, location: "` + stepLocation + `", sha256: ` + sum + `, args: [job]}
- {name: someone/else, location: "https://example.com/another"}
`

// healthySteps is a cluster in which a Rollout without a router has plugin steps.
func healthySteps() snapshot {
	s := healthy()
	s.steps.kinds = calls
	s.configData()[stepPlugins] = stepList
	delete(s.configData(), trafficRouterPlugins)
	s.plugins = nil
	s.objects.httpScaledObjects = read[[]httpScaledObject]{Err: missingKind("httpscaledobjects.http.keda.sh")}
	s.demo().Spec.Strategy.Canary.TrafficRouting = nil
	s.setSteps(`
- setWeight: 20
- plugin: {name: acme/e2e, config: {id: e2e, timeout: 5m}}
- plugin: {name: acme/run-job, config: {url: "{{ steps.e2e.outputs.url }}"}}
- plugin: {name: someone/else, config: {what: ever}}
`)
	s.steps.presets = presetsOf("e2e", []corev1.ConfigMap{presetMap("hosts: [ci.example.com]")}, nil)
	s.steps.programs = stepPrograms(s)
	return s
}

func (s *snapshot) setSteps(text string) {
	s.demo().Spec.Strategy.Canary.Steps = parse[[]v1alpha1.CanaryStep](text)
}

func presetMap(text string) corev1.ConfigMap {
	return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}, Data: map[string]string{steps.PresetKey: text}}
}

func TestHealthyStepsHaveOnlyTicks(t *testing.T) {
	beside := healthySteps() // with a router, too
	beside.configData()[trafficRouterPlugins] = pluginList
	beside.plugins = healthy().plugins
	beside.objects.httpScaledObjects = healthy().objects.httpScaledObjects
	routed := healthy()
	beside.demo().Spec.Strategy.Canary.TrafficRouting = routed.demo().Spec.Strategy.Canary.TrafficRouting
	named := healthySteps()
	named.rollout = "demo"
	for name, s := range map[string]snapshot{"without a router": healthySteps(), "beside a router": beside, "the Rollout named": named} {
		t.Run(name, func(t *testing.T) {
			report := Report{Results: look(s)}
			for _, result := range report.Results {
				if result.Status != OK {
					t.Errorf("%+v", result)
				}
			}
			for check, want := range map[string]string{
				"step-plugin-registered": "registers acme/e2e (http), acme/run-job (job)",
				"step-plugin-preset":     "is the preset of acme/e2e",
				"rollout-steps":          "has 3 plugin steps, of which 2 were read",
			} {
				if !slices.ContainsFunc(report.Results, func(r Result) bool { return r.Check == check && strings.Contains(r.Message, want) }) {
					t.Errorf("%s does not say %q: %+v", check, want, report.Results)
				}
			}
		})
	}
}

func TestStepFaults(t *testing.T) {
	register := func(text string) func(*snapshot) {
		return func(s *snapshot) {
			s.configData()[stepPlugins] = strings.Replace(stepList, "- {name: someone", text+"\n- {name: someone", 1)
			s.steps.programs = stepPrograms(*s)
		}
	}
	entry := func(name, args string) func(*snapshot) {
		return register(`- {name: ` + name + `, location: "` + stepLocation + `", sha256: ` + sum + `, args: ` + args + `}`)
	}
	plugins := func(text string) func(*snapshot) { return func(s *snapshot) { s.setSteps(text) } }
	preset := func(found []corev1.ConfigMap, err *readError) func(*snapshot) {
		return func(s *snapshot) { s.steps.presets = presetsOf("e2e", found, err) }
	}
	const preseted = "ConfigMap argo-rollouts/e2e"
	testFaultsOf(t, healthySteps, faults{
		"no list": {func(s *snapshot) { s.configData()[stepPlugins] = "a: b"; s.steps.programs = stepPrograms(*s) }, []finding{
			{"plugin-registered", Failure, configMap, []string{"data.stepPlugins is not a YAML list of plugins", restart}}}},
		"an unknown kind": {entry("acme/x", "[htpp]"), []finding{
			{"step-plugin-registered", Failure, configMap, []string{`data.stepPlugins[2].args: kind "htpp" is not known: want one of http, job, resource, rollouts; did you mean http?`, restart}}}},
		"an unknown flag": {entry("acme/x", "[job, --log-levle=debug]"), []finding{
			{"step-plugin-registered", Failure, configMap, []string{"unknown flag: --log-levle: did you mean --log-level?"}}}},
		"a name that stops the controller": {entry("acme", "[job]"), []finding{
			{"step-plugin-registered", Failure, configMap, []string{`data.stepPlugins[2].name: "acme" is not of the form <namespace>/<name>`}}}},
		"twice": {entry("acme/e2e", "[job]"), []finding{
			{"step-plugin-registered", Failure, configMap, []string{"acme/e2e is listed twice"}}}},
		"no SHA-256": {register(`- {name: acme/x, location: "` + stepLocation + `", args: [job]}`), []finding{
			{"plugin-location", Warning, configMap, []string{"acme/x: sha256 is not set: the controller runs whatever the location serves"}}}},
		"no location": {register(`- {name: acme/x, args: [job]}`), []finding{
			{"plugin-location", Failure, configMap, []string{`acme/x: location "" is no URL`}}}},
		"another platform": {register(`- {name: acme/x, location: "` + strings.Replace(stepLocation, "amd64", "arm64", 1) + `", sha256: ` + sum + `, args: [job]}`), []finding{
			{"plugin-platform", Failure, configMap, []string{"acme/x: location says linux/arm64, the controller's node node-1 is linux/amd64"}}}},
		"no allowed host": {entry("acme/x", "[http]"), []finding{
			{"step-plugin-registered", Failure, configMap, []string{"acme/x: no host is allowed", "--allow-host=HOST"}}}},
		"no preset": {preset(nil, nil), []finding{
			{"step-plugin-preset", Failure, preseted, []string{"is the preset of acme/e2e, and does not exist", "preset.yaml"}},
			{"rollout-steps", Failure, demo, []string{"the preset argo-rollouts/e2e of acme/e2e cannot be used, so that the step waits until it times out: does not exist", "as step-plugin-preset says"}}}},
		"a wrong preset": {preset([]corev1.ConfigMap{presetMap("host: [x]")}, nil), []finding{
			{"step-plugin-preset", Failure, preseted, []string{`host: the key is not known: did you mean "hosts"?`, "steps that begin with it wait", "kubectl -n argo-rollouts edit configmap e2e"}},
			{"rollout-steps", Failure, demo, []string{`host: the key is not known`}}}},
		"a preset without its key": {preset([]corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}}}, nil), []finding{
			{"step-plugin-preset", Failure, preseted, []string{`has no data["preset.yaml"]`}},
			{"rollout-steps", Failure, demo, nil}}},
		"a preset that may not be read": {preset(nil, forbidden("get", "configmaps", "argo-rollouts", "e2e")), []finding{
			{"step-plugin-preset", Warning, preseted, []string{"kubectl auth can-i get configmaps"}}}},
		"not registered": {plugins("[{plugin: {name: acme/e3e}}]"), []finding{
			{"rollout-steps", Failure, demo, []string{"spec.strategy.canary.steps[0].plugin.name: acme/e3e is not registered under stepPlugins of argo-rollouts-config; did you mean acme/e2e?", restart}}}},
		"no argo-rollouts-config": {func(s *snapshot) {
			s.controller.config = read[*corev1.ConfigMap]{Err: &readError{"get", "configmaps", "argo-rollouts", "argo-rollouts-config", missingKind("configmaps").Err}}
			s.setSteps("[{plugin: {name: acme/e2e}}]")
			s.steps.programs = stepPrograms(*s)
		}, []finding{
			{"plugin-registered", Failure, configMap, []string{"does not exist"}},
			{"rollout-steps", Failure, demo, []string{"acme/e2e is not registered"}}}},
		"disabled": {func(s *snapshot) {
			s.configData()[stepPlugins] = strings.Replace(stepList, "args: [job]", "args: [job], disabled: true", 1)
		}, []finding{
			{"rollout-steps", Warning, demo, []string{"acme/run-job is disabled: Argo Rollouts passes over its steps", "take disabled out of data.stepPlugins[1]"}}}},
		"a configuration that is wrong": {plugins(`[{plugin: {name: acme/run-job, config: {ulr: x}}}]`), []finding{
			{"rollout-steps", Failure, demo, []string{`spec.strategy.canary.steps[0].plugin.config: job.ulr: the key is not known: did you mean "url"?`, "kubectl -n shop edit rollout demo"}}}},
		"longer than the deadline": {plugins(`[{plugin: {name: acme/run-job, config: {timeout: 1h}}}]`), []finding{
			{"rollout-steps", Failure, demo, []string{"timeout 1h0m0s: the Rollout's progressDeadlineSeconds of 600 allows 9m0s at most"}}}},
		"the same id, and outputs of a later step": {plugins(`
- plugin: {name: acme/run-job, config: {id: a, url: "{{ steps.b.outputs.x }}"}}
- plugin: {name: acme/run-job, config: {id: a}}
- plugin: {name: acme/run-job, config: {id: b}}
`), []finding{
			{"rollout-steps", Failure, demo, []string{`id "a": step 1 of the Rollout has the same id`}},
			{"rollout-steps", Failure, demo, []string{`refers to the outputs of step "b", which comes later (step 3)`}}}},
	})
}

// healthyPresets is a cluster with one registration for all kinds, and presets.
func healthyPresets() snapshot {
	s := healthySteps()
	s.configData()[stepPlugins] = `[{name: kedify/step, location: "` + stepLocation + `", sha256: ` + sum + `}]`
	s.setSteps(`
- setWeight: 20
- plugin: {name: kedify/step, config: {use: smoke, timeout: 5m}}
- plugin: {name: kedify/step, config: {job: {url: x}}}
`)
	s.steps.presets = nil
	s.name("smoke", "{defaults: {http: {url: x}}, locked: [http.url], namespaces: [shop]}")
	s.name("other", "{defaults: {job: {}}}")
	s.steps.programs = stepPrograms(s)
	return s
}

func presetsOf(name string, found []corev1.ConfigMap, err *readError) map[types.NamespacedName]read[[]corev1.ConfigMap] {
	return map[types.NamespacedName]read[[]corev1.ConfigMap]{{Namespace: "argo-rollouts", Name: name}: {Value: found, Err: err}}
}

// name puts a preset among those that steps can name.
func (s *snapshot) name(name, text string) {
	named := s.steps.presets[types.NamespacedName{Namespace: "argo-rollouts"}].Value
	named = slices.DeleteFunc(slices.Clone(named), func(c corev1.ConfigMap) bool { return c.Name == name })
	if text != "" {
		configMap := presetMap(text)
		configMap.Name = name
		named = append(named, configMap)
	}
	s.steps.presets = presetsOf("", named, nil)
}

func TestPresetFaults(t *testing.T) {
	healthy := Report{Results: look(healthyPresets())}
	for check, want := range map[string]string{
		"step-plugin-registered": "registers kedify/step (each kind of step)",
		"step-plugin-preset":     "is a preset of steps of kedify/step",
		"rollout-steps":          "has 2 plugin steps, of which 2 were read",
	} {
		if !slices.ContainsFunc(healthy.Results, func(r Result) bool { return r.Check == check && strings.Contains(r.Message, want) }) {
			t.Errorf("%s does not say %q: %+v", check, want, healthy.Results)
		}
	}
	const smoke = "ConfigMap argo-rollouts/smoke"
	named := func(name, text string) func(*snapshot) { return func(s *snapshot) { s.name(name, text) } }
	testFaultsOf(t, healthyPresets, faults{
		"a typo": {named("smoke", "{defaults: {http: {ulr: x}}}"), []finding{
			{"step-plugin-preset", Failure, smoke, []string{`defaults: http.ulr: the key is not known: did you mean "url"?`, "kubectl -n argo-rollouts edit configmap smoke"}},
			{"rollout-steps", Failure, demo, []string{"the preset smoke cannot be used, so that the step waits", "as step-plugin-preset says"}}}},
		"deleted": {named("smoke", ""), []finding{
			{"rollout-steps", Failure, demo, []string{`there is no ConfigMap argo-rollouts/smoke with the label rollouts.kedify.io/step-preset: "true"`}}}},
		"one that no step uses": {named("other", "{locked: [request]}"), []finding{
			{"step-plugin-preset", Failure, "ConfigMap argo-rollouts/other", []string{"locked: request: want a key such as"}}}},
		"for another namespace": {named("smoke", "{defaults: {http: {url: x}}, namespaces: [other]}"), []finding{
			{"rollout-steps", Failure, demo, []string{"the preset is not for Rollouts of namespace shop"}}}},
		"disabled": {named("smoke", "{defaults: {http: {url: x}}, disabled: true}"), []finding{
			{"rollout-steps", Warning, demo, []string{"the preset smoke is disabled: the step starts nothing", "take disabled out"}}}},
		"a kind that Rollouts may not name": {func(s *snapshot) {
			s.configData()[stepPlugins] = strings.Replace(s.configData()[stepPlugins], "sha256", "args: [--allow-kind=http], sha256", 1)
		}, []finding{
			{"rollout-steps", Failure, demo, []string{"job: a Rollout may name this kind of step by a preset alone"}}}},
		"no list of presets": {func(s *snapshot) {
			s.steps.presets = presetsOf("", nil, forbidden("list", "configmaps", "argo-rollouts", ""))
		}, []finding{
			{"step-plugin-preset", Warning, "Namespace argo-rollouts", []string{"kubectl auth can-i list configmaps"}}}},
	})
}

// A Rollout whose plugin steps all belong to other projects is not checked.
func TestStepsOfOthersAlone(t *testing.T) {
	s := healthySteps()
	s.setSteps("[{plugin: {name: someone/else}}]")
	if got := rolloutsToCheck(s); len(got) > 0 {
		t.Errorf("%d Rollouts are checked", len(got))
	}
	s.setSteps("[{plugin: {name: someone/else}}, {plugin: {name: acme/e2e}}]")
	if got := rolloutsToCheck(s); len(got) != 1 {
		t.Errorf("%d Rollouts are checked, want 1", len(got))
	}
}

// The check reads presets.
func TestRunReadsTheSteps(t *testing.T) {
	s := healthySteps()
	s.configData()[stepPlugins] = `[{name: acme/run-job, location: "` + stepLocation + `", sha256: ` + sum + `, args: [job, --preset=argo-rollouts/e2e]}]`
	s.setSteps("[{plugin: {name: acme/run-job, config: {logLines: 1}}}]")
	a := serve(t, s)
	a.more = map[string]any{"/api/v1/namespaces/argo-rollouts/configmaps/e2e": presetMap("locked: [logLines]")}
	report := runOn(t, a, Options{Namespace: "shop"})
	if found := notOK(report); !slices.Equal(found, []string{"rollout-steps failure"}) {
		t.Errorf("found %v: %+v", found, report)
	}
	if text := report.Results[len(report.Results)-2].Message; !slices.ContainsFunc(report.Results, func(r Result) bool {
		return strings.Contains(r.Message, "job.logLines: the preset does not let a Rollout set this")
	}) {
		t.Errorf("the preset was not read: %s", text)
	}
	for _, asked := range a.asked {
		if method, path, _ := strings.Cut(asked, " "); method != http.MethodGet && !strings.HasSuffix(path, "accessreviews") {
			t.Errorf("the check changes things: %s", asked)
		}
	}
}

// The check lists the presets of the controller's namespace.
func TestRunListsThePresets(t *testing.T) {
	s := healthySteps()
	s.configData()[stepPlugins] = `[{name: kedify/step, location: "` + stepLocation + `", sha256: ` + sum + `}]`
	s.setSteps("[{plugin: {name: kedify/step, config: {use: smoke, job: {logLines: 1}}}}]")
	a := serve(t, s)
	smoke := presetMap("{defaults: {job: {}}, locked: [job.logLines]}")
	smoke.Name = "smoke"
	a.more = map[string]any{"/api/v1/namespaces/argo-rollouts/configmaps": map[string]any{"items": []any{smoke}}}
	report := runOn(t, a, Options{Namespace: "shop"})
	for check, want := range map[string]string{
		"step-plugin-preset": "is a preset of steps of kedify/step",
		"rollout-steps":      "job.logLines: the preset does not let a Rollout set this",
	} {
		if !slices.ContainsFunc(report.Results, func(r Result) bool { return r.Check == check && strings.Contains(r.Message, want) }) {
			t.Errorf("%s does not say %q: %+v", check, want, report.Results)
		}
	}
}

// A file that is registered under two names is downloaded once.
func TestStepDownloads(t *testing.T) {
	fetched := 0
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched++
		_, _ = w.Write([]byte("a web page"))
	}))
	t.Cleanup(files.Close)
	s := healthySteps()
	s.configData()[stepPlugins] = strings.ReplaceAll(stepList, stepLocation, files.URL+"/rollouts-plugin-step-linux-amd64")
	gatherDownloads(t.Context(), nil, s.controller, s.steps.programs)
	var found []string
	for _, result := range look(s) {
		if result.Check == "plugin-download" {
			found = append(found, result.Status.String()+" "+strings.SplitAfter(result.Message, "sha256 is ")[0])
		}
	}
	if want := []string{"failure acme/e2e: its sha256 is ", "failure acme/run-job: its sha256 is "}; fetched != 1 || !slices.Equal(found, want) {
		t.Errorf("fetched %d times, found %q", fetched, found)
	}
}

// In manifests, steps are checked as far as that needs no registration.
func TestStepsOfManifests(t *testing.T) {
	const text = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: demo}
spec:
  strategy:
    canary:
      steps:
      - plugin: {name: acme/a, config: {id: a}}
      - plugin: {name: acme/a, config: {id: a}}
      - plugin: {name: acme}
      - plugin: {name: kedify/step, config: {use: smoke}}
      - plugin: {name: kedify/step, config: {http: {request: {urll: "https://ci.example.com"}}}}
`
	const steps = "rollout-steps spec.strategy.canary.steps"
	want := []string{
		steps + `[2].plugin.name: "acme" is not of the form <namespace>/<name> → correct it: edit rollout.yaml`,
		steps + `[4].plugin.config: http.request.urll: the key is not known: did you mean "url"? → correct it: edit rollout.yaml`,
		steps + `[1].plugin.config: id "a": step 1 of the Rollout has the same id; give each step its own → correct it: edit rollout.yaml`,
	}
	var found []string
	for _, result := range lookAtManifests("rollout.yaml", []byte(text), "shop") {
		if result.Status != OK {
			found = append(found, result.Check+" "+result.Message+" → "+result.Remedy)
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
