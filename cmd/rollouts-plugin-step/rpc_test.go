package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/steps/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
)

func rollout() *v1alpha1.Rollout {
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "u-1"}}
	ro.Status.CurrentPodHash = "new"
	return ro
}

// runStep runs a step as the controller does, which passes the status of the last Run.
func runStep(t *testing.T, plugin rpc.StepPlugin, config string, status json.RawMessage) types.RpcStepResult {
	t.Helper()
	result, err := plugin.Run(rollout(), &types.RpcStepContext{PluginName: "acme/e2e", Config: json.RawMessage(config), Status: status})
	plugintest.Succeed(t, err)
	return result
}

func require(t *testing.T, what string, result types.RpcStepResult, phase types.StepPhase, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if result.Phase != phase || !strings.Contains(result.Message, part) {
			t.Fatalf("%s: %s %q, want %s with %q", what, result.Phase, result.Message, phase, part)
		}
	}
}

func configMap(text string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "argo-rollouts", "name": "e2e"}, "data": map[string]any{"preset.yaml": text}}
}

// A step from its first Run to Abort and Terminate, over the RPC of the controller, with
// the settings of its preset.
func TestOverRPC(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject("configmaps", configMap("defaults: {say: hello}\nlocked: [panicPoll]"))
	plugin, stderr := plugintest.StartStep(t, installed(t, "acme/e2e"), server.Kubeconfig(), "probe", "--preset=argo-rollouts/e2e", "--allow-host=a.example.com")
	if kind := plugin.Type(); kind != "probe" {
		t.Errorf("Type() = %q", kind)
	}
	running := runStep(t, plugin, "", nil)
	require(t, "the first Run", running, types.PhaseRunning, "acme/e2e says hello")
	if running.RequeueAfter < 11*time.Second || !strings.Contains(string(running.Status), `"hosts":"a.example.com"`) {
		t.Errorf("requeue after %s with status %s", running.RequeueAfter, running.Status)
	}
	done := runStep(t, plugin, "", running.Status)
	require(t, "the second Run", done, types.PhaseSuccessful, "done")
	for name, call := range map[string]func(*v1alpha1.Rollout, *types.RpcStepContext) (types.RpcStepResult, types.RpcError){"Abort": plugin.Abort, "Terminate": plugin.Terminate} {
		result, err := call(rollout(), &types.RpcStepContext{PluginName: "acme/e2e", Status: done.Status})
		plugintest.Succeed(t, err)
		if result.Phase != types.PhaseSuccessful {
			t.Errorf("%s = %+v", name, result)
		}
	}
	require(t, "a Rollout that sets what is locked", runStep(t, plugin, `{"panicPoll":true}`, nil), types.PhaseFailed, "panicPoll: the preset does not let a Rollout set this")
	plugintest.Eventually(t, "an Event that the step waits", func() bool {
		for _, event := range server.Events() {
			if event.Reason == "StepWaiting" && event.InvolvedObject.Kind == "Rollout" && strings.Contains(event.Message, "acme/e2e says hello") {
				return true
			}
		}
		return false
	})
	plugintest.Eventually(t, "the registered name in the log", func() bool { return strings.Contains(stderr.String(), `"@module":"acme/e2e"`) })
}

// A plugin with a wrong registration serves, and fails its steps with what is wrong.
func TestARegistrationThatIsWrong(t *testing.T) {
	server := apiservertest.New(t)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a preset, no kind":  {[]string{"--preset=a/b"}, "--preset does nothing for a registration without a kind"},
		"an unknown kind":    {[]string{"prob"}, `kind "prob" is not known: want one of probe; did you mean probe?`},
		"a subcommand":       {[]string{"version"}, `kind "version" is not known`},
		"help":               {[]string{"--help"}, "--help"},
		"an unknown flag":    {[]string{"probe", "--preste=a/b"}, "unknown flag: --preste: did you mean --preset?"},
		"a malformed preset": {[]string{"probe", "--preset=e2e"}, `--preset "e2e": want namespace/name`},
		"a wrong log level":  {[]string{"probe", "--log-level=loud"}, `--log-level "loud"`},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, stderr := plugintest.StartStep(t, installed(t, "acme/e2e"), server.Kubeconfig(), tc.args...)
			result := runStep(t, plugin, "", nil)
			require(t, "Run", result, types.PhaseFailed, tc.want, "step plugin acme/e2e cannot work as argo-rollouts-config registers it")
			if strings.Contains(result.Message, "\n") {
				t.Errorf("more than one line: %q", result.Message)
			}
			if _, err := plugin.Abort(rollout(), &types.RpcStepContext{}); err.HasError() {
				t.Errorf("Abort: %v", err)
			}
			plugintest.Eventually(t, "an error in the log, with its level", func() bool {
				return strings.Contains(stderr.String(), `"@level":"error","@message":"every step fails: the registration is wrong"`)
			})
		})
	}
}

// The released program serves every kind.
func TestEveryKindServes(t *testing.T) {
	server := apiservertest.New(t)
	all := kinds.Names(kinds.All(kinds.Options{}))
	if len(all) == 0 {
		t.Fatal("there are no kinds")
	}
	for _, kind := range all {
		t.Run(kind, func(t *testing.T) {
			plugin, _ := plugintest.StartStep(t, binary, server.Kubeconfig(), kind)
			if got := plugin.Type(); got != kind {
				t.Errorf("Type() = %q", got)
			}
			require(t, "Run with a key that no kind has", runStep(t, plugin, `{"noKindHasThis": 1}`, nil), types.PhaseFailed, "noKindHasThis")
		})
	}
	if requests := server.Requests(); len(requests) > 0 {
		t.Errorf("requests before the first step that can be read: %v", requests)
	}
}

// A panic ends only the call that it happens in: a step that has a status keeps it, and
// the process goes on serving.
func TestAPanicOverRPC(t *testing.T) {
	plugin, stderr := plugintest.StartStep(t, installed(t, "acme/e2e"), apiservertest.New(t).Kubeconfig(), "probe")
	running := runStep(t, plugin, `{"panicPoll":true}`, nil)
	require(t, "a step whose Poll panics", runStep(t, plugin, `{"panicPoll":true}`, running.Status), types.PhaseRunning, "panic: in Poll")
	kept := runStep(t, plugin, `{"panicParse":true}`, running.Status)
	require(t, "a step that runs, whose Parse panics", kept, types.PhaseRunning, "panic: in Parse")
	require(t, "a step that begins, whose Parse panics", runStep(t, plugin, `{"panicParse":true}`, nil), types.PhaseFailed, "panic: in Parse")
	require(t, "the next Run", runStep(t, plugin, "", running.Status), types.PhaseSuccessful, "done")
	plugintest.Eventually(t, "the stack in the log", func() bool { return strings.Contains(stderr.String(), "main_test.go") })
}

func TestEndsWithTheController(t *testing.T) { plugintest.KillController(t, installed(t, "acme/e2e")) }

// One file serves under ten names at once, each with args of its own.
func TestTenRegistrations(t *testing.T) {
	server := apiservertest.New(t)
	plugins, logs := make([]rpc.StepPlugin, 10), make([]*plugintest.Output, 10)
	for i := range plugins {
		plugins[i], logs[i] = plugintest.StartStep(t, installed(t, fmt.Sprintf("acme/e2e-%d", i)), server.Kubeconfig(), "probe", fmt.Sprintf("--allow-host=h%d.example.com", i))
	}
	var calls sync.WaitGroup
	for i, plugin := range plugins {
		calls.Go(func() {
			for range 10 {
				result, err := plugin.Run(rollout(), &types.RpcStepContext{PluginName: fmt.Sprintf("acme/e2e-%d", i)})
				if err.HasError() || !strings.Contains(string(result.Status), fmt.Sprintf(`"hosts":"h%d.example.com"`, i)) {
					t.Errorf("Run of acme/e2e-%d: %+v, %v", i, result, err)
				}
			}
		})
	}
	calls.Wait()
	for i, log := range logs {
		plugintest.Eventually(t, "the name of each in its log", func() bool { return strings.Contains(log.String(), fmt.Sprintf(`"@module":"acme/e2e-%d"`, i)) })
	}
}

// A plugin that is started before its API server answers waits for its preset, and goes on
// once it has it.
func TestStartsWithoutACluster(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject("configmaps", configMap("defaults: {say: hello}"))
	address, listen := plugintest.Later(t, server.URL())
	plugin, _ := plugintest.StartStep(t, installed(t, "acme/e2e"), strings.ReplaceAll(server.Kubeconfig(), server.URL(), address), "probe", "--preset=argo-rollouts/e2e")
	result := runStep(t, plugin, "", nil)
	require(t, "Run without a cluster", result, types.PhaseRunning, "preset ConfigMap argo-rollouts/e2e cannot be read")
	listen()
	plugintest.Eventually(t, "the step starts", func() bool {
		result = runStep(t, plugin, "", result.Status)
		return strings.Contains(result.Message, "says hello")
	})
}

// begin runs the first Run of a step, each time of another Rollout.
func begin(t *testing.T, plugin rpc.StepPlugin, config string) types.RpcStepResult {
	t.Helper()
	begun++
	ro := rollout()
	ro.UID = k8stypes.UID(fmt.Sprintf("begun-%d", begun))
	result, err := plugin.Run(ro, &types.RpcStepContext{PluginName: "kedify/step", Config: json.RawMessage(config)})
	plugintest.Succeed(t, err)
	return result
}

var begun int

// putPreset stores a preset that steps can name.
func putPreset(server *apiservertest.Server, name, text string) {
	server.PutObject("configmaps", map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"preset.yaml": text},
		"metadata": map[string]any{"namespace": "argo-rollouts", "name": name, "labels": map[string]any{"rollouts.kedify.io/step-preset": "true"}},
	})
}

// saysWrong tells whether there is an Event about what is wrong with a preset.
func saysWrong(server *apiservertest.Server, name string) func() bool {
	return func() bool {
		return slices.ContainsFunc(server.Events(), func(event corev1.Event) bool {
			return event.InvolvedObject.Kind == "ConfigMap" && event.InvolvedObject.Name == name && event.Type == "Warning" && event.Reason == "StepPresetInvalid"
		})
	}
}

// One registration serves presets that are added, changed, broken, mended and deleted while
// the process runs.
func TestOneRegistration(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "argo-rollouts")
	server := apiservertest.New(t)
	putPreset(server, "unused", "host: []")
	plugin, _ := plugintest.StartStep(t, installed(t, "kedify/step"), server.Kubeconfig())
	plugintest.Eventually(t, "an Event on a ConfigMap that no step uses", saysWrong(server, "unused"))
	if kind := plugin.Type(); kind != "step" {
		t.Errorf("Type() = %q", kind)
	}
	require(t, "a step without a preset", begin(t, plugin, `{"probe": {"say": "its own"}}`), types.PhaseRunning, "says its own")
	require(t, "a flat step", begin(t, plugin, `{"say": "its own"}`), types.PhaseFailed, "say: the key is not known")
	waiting := runStep(t, plugin, `{"use": "smoke"}`, nil)
	require(t, "a step whose preset is missing", waiting, types.PhaseRunning, "smoke: ", "there is no preset smoke")
	become := func(what, config string, status json.RawMessage, words string) (result types.RpcStepResult) {
		t.Helper()
		plugintest.Eventually(t, what, func() bool {
			if status == nil {
				result = begin(t, plugin, config)
			} else {
				result = runStep(t, plugin, config, status)
			}
			return strings.Contains(result.Message, words)
		})
		return result
	}
	putPreset(server, "smoke", "defaults: {probe: {say: hello}}\nlocked: [probe.panicPoll]")
	running := become("it is added", `{"use": "smoke"}`, waiting.Status, "says hello")
	require(t, "what is locked", begin(t, plugin, `{"use": "smoke", "probe": {"panicPoll": true}}`), types.PhaseFailed, "smoke: probe.panicPoll: the preset does not let a Rollout set this")
	for i, name := range []string{"b", "c", "d"} {
		putPreset(server, name, fmt.Sprintf("defaults: {probe: {say: number %d}}", i))
		become(name+" is added", `{"use": "`+name+`"}`, nil, fmt.Sprintf("says number %d", i))
	}
	putPreset(server, "smoke", "default: {}")
	broken := become("it is broken", `{"use": "smoke", "timeout": "5m"}`, nil, `default: the key is not known: did you mean "defaults"?`)
	if broken.Phase != types.PhaseRunning {
		t.Errorf("a typo in a preset: %+v", broken)
	}
	plugintest.Eventually(t, "an Event on the ConfigMap", saysWrong(server, "smoke"))
	require(t, "a step that has begun", runStep(t, plugin, `{"use": "smoke"}`, running.Status), types.PhaseSuccessful, "smoke: done")
	putPreset(server, "smoke", "{defaults: {probe: {panicParse: true}}}")
	become("a panic is found", `{"use": "smoke"}`, nil, "panic: in Parse")
	require(t, "another preset", begin(t, plugin, `{"use": "b"}`), types.PhaseRunning, "says number 0")
	putPreset(server, "smoke", "{defaults: {probe: {say: again}}, namespaces: [other]}")
	become("it is for others", `{"use": "smoke"}`, nil, "not for Rollouts of namespace demo")
	putPreset(server, "smoke", "{defaults: {probe: {say: again}}, disabled: true}")
	if result := become("it is disabled", `{"use": "smoke"}`, nil, "the preset is disabled"); result.Phase != types.PhaseSuccessful {
		t.Errorf("a disabled preset: %+v", result)
	}
	server.Delete("configmaps", "argo-rollouts", "smoke")
	become("it is deleted", `{"use": "smoke"}`, nil, "there is no preset smoke")
}

// What Rollouts write themselves is limited by the args.
func TestLimitsOfARegistration(t *testing.T) {
	server := apiservertest.New(t)
	putPreset(server, "smoke", "defaults: {http: {request: {url: https://ci.example.com}}, timeout: 5m}\nhosts: [ci.example.com]")
	plugin, _ := plugintest.StartStep(t, binary, server.Kubeconfig(), "--allow-kind=job", "--presets-namespace=argo-rollouts")
	require(t, "a kind of one's own", begin(t, plugin, `{"http": {"request": {"url": "https://ci.example.com"}}}`), types.PhaseFailed, "http: a Rollout may name this kind of step by a preset alone (--allow-kind names job)")
	require(t, "a host of one's own", begin(t, plugin, `{"use": "smoke", "http": {"request": {"url": "https://elsewhere.example.com"}}}`), types.PhaseFailed, "http.request.url: ", "elsewhere.example.com")
}

// What is wrong with a preset's expressions, hosts and texts holds its steps up too, for each
// kind; what a Rollout writes fails them.
func TestWhatTheKindsSayOfAPreset(t *testing.T) {
	server := apiservertest.New(t)
	plugin, _ := plugintest.StartStep(t, binary, server.Kubeconfig(), "--presets-namespace=argo-rollouts")
	for i, tc := range []struct{ preset, config, words string }{
		{`{defaults: {http: {poll: {url: "https://ci.example.com", successCondition: "response.statuss == 200"}}}, hosts: [ci.example.com]}`, ``, "http.poll.successCondition"},
		{`{defaults: {http: {poll: {url: "https://ci.example.com/{{ rollout.nam }}"}}}, hosts: [ci.example.com]}`, ``, "http.poll.url"},
		{`{defaults: {http: {request: {url: "https://ci.example.com"}}}, hosts: ["https://x"]}`, ``, "hosts of the preset"},
		{`{defaults: {http: {request: {url: "https://elsewhere.example.com"}}}, hosts: [ci.example.com]}`, ``, "http.request.url"},
		{`{defaults: {http: {request: {url: "https://ci.example.com", timeout: 1h}}}, hosts: [ci.example.com]}`, ``, "http.request.timeout"},
		{`{defaults: {rollouts: {names: [Not/A/Name]}}}`, ``, "rollouts"},
		{`{defaults: {job: {template: {spec: {restartPolicy: Always, containers: [{name: a, image: b}]}}}}}`, ``, "job.template.spec.restartPolicy"},
		{`{defaults: {job: {template: {spec: {containers: [{name: a, image: "{{ images.neu.web }}"}]}}}}}`, ``, "job.template.spec.containers[0].image"},
	} {
		name := fmt.Sprintf("preset-%d", i)
		putPreset(server, name, tc.preset)
		var result types.RpcStepResult
		plugintest.Eventually(t, tc.words+" of "+tc.preset, func() bool {
			result = begin(t, plugin, `{"use": "`+name+`"}`)
			return !strings.Contains(result.Message, "there is no preset")
		})
		if result.Phase != types.PhaseRunning || !strings.Contains(result.Message, tc.words) {
			t.Errorf("%s: %s %s", tc.preset, result.Phase, result.Message)
		}
		if tc.config = strings.TrimPrefix(strings.SplitN(tc.preset, "}, hosts", 2)[0], "{defaults: "); strings.Contains(tc.preset, "hosts") {
			tc.config += "}"
		} else {
			tc.config = strings.TrimSuffix(tc.config, "}")
		}
		asJSON, err := yaml.YAMLToJSON([]byte(tc.config))
		if err != nil {
			t.Fatalf("%s: %v", tc.config, err)
		}
		if own := begin(t, plugin, string(asJSON)); own.Phase != types.PhaseFailed {
			t.Errorf("%s: %s %s", asJSON, own.Phase, own.Message)
		}
	}
}
