package httpstep

import (
	"cmp"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// logbook keeps Events.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) Warn(_ *v1alpha1.Rollout, reason, _, message string) { l.Note(nil, reason, message) }

func (l *logbook) Note(_ *v1alpha1.Rollout, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, reason+" "+message)
}

func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// host calls the plugin as the controller does for a Rollout's current step.
type host struct {
	t       *testing.T
	api     *apiservertest.Server
	opts    Options
	preset  steps.PresetSource
	config  string
	ro      *v1alpha1.Rollout
	plugin  *steps.Plugin
	kind    *Kind
	events  *logbook
	log     strings.Builder
	logging sync.Mutex
	status  json.RawMessage
	last    types.RpcStepResult
	// callWait is a minute if 0.
	callWait time.Duration
}

// newHost returns a host for a step whose configuration has OUTSIDE for the server's
// address.
func newHost(t *testing.T, o *outside, config string) *host {
	t.Helper()
	index := int32(2)
	h := &host{t: t, api: apiservertest.New(t), events: &logbook{}, config: strings.ReplaceAll(config, "OUTSIDE", o.URL)}
	h.opts = Options{Connect: h.api.Config, Version: "v1.2.3", AllowHosts: []string{"127.0.0.1"}, AllowAddresses: loopback, SecretsNamespace: "secrets"}
	h.opts.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: h})
	h.ro = &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: "app", UID: "u-1", Labels: map[string]string{"team": `a "b" \c`}, Annotations: map[string]string{"rollout.argoproj.io/revision": "7"},
	}}
	h.ro.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.example/app:v2"}}
	h.ro.Status.CurrentStepIndex, h.ro.Status.CurrentPodHash = &index, "new"
	h.restart()
	return h
}

// Write appends to the log.
func (h *host) Write(line []byte) (int, error) {
	h.logging.Lock()
	defer h.logging.Unlock()
	return h.log.Write(line)
}

func (h *host) logged() string {
	h.logging.Lock()
	defer h.logging.Unlock()
	return h.log.String()
}

// restart starts a new process of the plugin.
func (h *host) restart() {
	h.kind = New(h.opts)
	h.plugin = steps.New(steps.Options{Kind: h.kind, Presets: h.preset, Events: h.events, Logger: h.opts.Logger, CallWait: cmp.Or(h.callWait, time.Minute)})
}

func (h *host) call() *types.RpcStepContext {
	return &types.RpcStepContext{PluginName: "acme/step", Config: json.RawMessage(h.config), Status: h.status}
}

// runUnstored makes a Run whose answer is lost.
func (h *host) runUnstored() types.RpcStepResult {
	h.t.Helper()
	result, err := h.plugin.Run(h.ro, h.call())
	if err.HasError() {
		h.t.Fatalf("Run: %v", err)
	}
	h.last = result
	return result
}

// run makes a Run, and stores its answer as the controller does.
func (h *host) run() types.RpcStepResult {
	h.t.Helper()
	h.runUnstored()
	h.status = h.last.Status
	return h.last
}

// until makes Runs until the step is no longer running, at most n.
func (h *host) until(n int) types.RpcStepResult {
	h.t.Helper()
	for range n {
		if h.run().Phase != types.PhaseRunning {
			break
		}
	}
	return h.last
}

func (h *host) require(phase types.StepPhase, parts ...string) {
	h.t.Helper()
	if h.last.Phase != phase {
		h.t.Fatalf("phase %s, want %s: %s", h.last.Phase, phase, h.last.Message)
	}
	for _, part := range parts {
		if !strings.Contains(h.last.Message, part) {
			h.t.Errorf("message %q, want one with %q", h.last.Message, part)
		}
	}
}

func (h *host) outputs() map[string]string {
	h.t.Helper()
	var s struct {
		Outputs map[string]string `json:"outputs"`
	}
	if err := json.Unmarshal(h.status, &s); err != nil {
		h.t.Fatal(err)
	}
	return s.Outputs
}

func (h *host) putSecret(namespace, name string, data map[string]string) {
	h.api.PutObject("secrets", secretOf(namespace, name, data))
}
