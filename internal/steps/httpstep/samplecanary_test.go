package httpstep

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// presetsByName are the presets of a sample.
type presetsByName map[string]*steps.Preset

func (p presetsByName) Preset(_ context.Context, name string) (*steps.Preset, error) {
	if p[name] == nil {
		return nil, fmt.Errorf("use %s: the sample has no such preset", name)
	}
	return p[name], nil
}

// canary is one of a sample's Rollout, whose plugin steps a controller would call.
type canary struct {
	*host
	outside *outside
	configs map[int32]json.RawMessage
}

// newCanary returns a canary of a sample, with the stand-in for the API at a host of the
// sample, and with a Secret in the controller's namespace.
func newCanary(t *testing.T, file, apiHost string, s *standIn, secretName string, data map[string]string) *canary {
	t.Helper()
	text, err := os.ReadFile("../../../examples/steps/" + file)
	if err != nil {
		t.Fatal(err)
	}
	o := newOutside(t, s.ServeHTTP)
	at := strings.TrimPrefix(o.URL, "http://")
	all := strings.NewReplacer("https://"+apiHost, o.URL, "["+apiHost+"]", `["`+at+`"]`, `["*.`+apiHost+`"]`, `["`+at+`"]`).Replace(string(text))
	if !strings.Contains(all, at) {
		t.Fatalf("%s has no host %s", file, apiHost)
	}
	h := newHost(t, o, "")
	presets, ro := presetsByName{}, &v1alpha1.Rollout{}
	for _, document := range strings.Split(all, "\n---\n") {
		var object corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &object); err == nil && object.Kind == "ConfigMap" {
			if presets[object.Name], err = steps.ReadPreset([]byte(object.Data[steps.PresetKey])); err != nil {
				t.Fatalf("%s: %v", object.Name, err)
			}
		} else if err := yaml.Unmarshal([]byte(document), ro); err != nil {
			t.Fatal(err)
		}
	}
	ro.Namespace, ro.UID = "demo", "u-1"
	metav1.SetMetaDataAnnotation(&ro.ObjectMeta, "rollout.argoproj.io/revision", "7")
	ro.Status = *h.ro.Status.DeepCopy()
	h.ro = ro
	h.opts.AllowHosts, h.opts.SecretsNamespace = nil, "argo-rollouts"
	h.putSecret("argo-rollouts", secretName, withURL(data, o.URL))
	h.kind = New(h.opts)
	h.plugin = steps.New(steps.Options{Kinds: []steps.Kind{h.kind}, Presets: presets, Events: h.events, Logger: h.opts.Logger, CallWait: time.Minute})
	c := &canary{h, o, map[int32]json.RawMessage{}}
	for i, step := range ro.Spec.Strategy.Canary.Steps {
		if step.Plugin != nil {
			c.configs[int32(i)] = step.Plugin.Config
		}
	}
	return c
}

// withURL returns the data of a Secret with the stand-in's address for URL.
func withURL(data map[string]string, url string) map[string]string {
	with := map[string]string{}
	for key, value := range data {
		with[key] = strings.ReplaceAll(value, "URL", url)
	}
	return with
}

// walk runs the plugin steps, each to its end, or the first alone.
func (c *canary) walk(first bool) {
	c.t.Helper()
	for i := range int32(len(c.ro.Spec.Strategy.Canary.Steps)) {
		if c.configs[i] == nil {
			continue
		}
		*c.ro.Status.CurrentStepIndex = i
		c.config, c.status = string(c.configs[i]), nil
		c.wait()
		c.store(v1alpha1.StepPluginStatus{Index: i, Phase: v1alpha1.StepPluginPhase(c.last.Phase), Message: c.last.Message, Status: c.status})
		if first {
			return
		}
	}
}

// begin makes the first Runs of the first plugin step, which goes on.
func (c *canary) begin(runs int) {
	c.t.Helper()
	for i := range int32(len(c.ro.Spec.Strategy.Canary.Steps)) {
		if c.configs[i] == nil {
			continue
		}
		*c.ro.Status.CurrentStepIndex = i
		c.config, c.status = string(c.configs[i]), nil
		for range runs {
			c.run()
			c.require(types.PhaseRunning)
			c.pass(c.last.RequeueAfter)
		}
		c.store(v1alpha1.StepPluginStatus{Index: i, Phase: v1alpha1.StepPluginPhaseRunning, Status: c.status})
		return
	}
}

func (c *canary) store(s v1alpha1.StepPluginStatus) {
	s.Name, s.Operation = "kedify/step", v1alpha1.StepPluginOperationRun
	c.ro.Status.Canary.StepPluginStatuses = append(c.ro.Status.Canary.StepPluginStatuses, s)
}

// abort calls the steps as the controller does after a later one has failed.
func (c *canary) abort(reason string) {
	c.t.Helper()
	c.ro.Status.Abort = true
	c.ro.Status.Conditions = []v1alpha1.RolloutCondition{{Type: v1alpha1.RolloutProgressing, Reason: "RolloutAborted", Message: "Rollout aborted update to revision 7: " + reason}}
	all := c.ro.Status.Canary.StepPluginStatuses
	for i := len(all) - 1; i >= 0; i-- {
		c.config, c.status = string(c.configs[all[i].Index]), all[i].Status
		if result, _ := c.plugin.Abort(c.ro, c.call()); result.Phase != types.PhaseSuccessful {
			c.t.Errorf("the abort of step %d: %s %q", all[i].Index+1, result.Phase, result.Message)
		}
	}
}
