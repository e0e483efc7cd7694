package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/steps/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		"no kind":            {nil, "args name no kind of step: want one of probe first"},
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

func TestAPresetOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "preset.yaml")
	if err := os.WriteFile(file, []byte("defaults: {say: from a file}"), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin, _ := plugintest.StartStep(t, installed(t, "acme/e2e"), apiservertest.New(t).Kubeconfig(), "probe", "--preset", file)
	require(t, "Run", runStep(t, plugin, "", nil), types.PhaseRunning, "says from a file")
}
