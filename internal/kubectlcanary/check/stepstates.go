package check

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/lint"
)

// NewStepsCommand returns `steps <rollout>`, which shows the plugin steps of a Rollout.
func NewStepsCommand() *cobra.Command {
	var connection connection
	presets := defaultControllerNamespace
	cmd := &cobra.Command{
		Use:   "steps <rollout>",
		Short: "Show the plugin steps of a Rollout, and what an abort would do",
		Long: `Show each plugin step of a Rollout with its state, since when, what an abort
would do about it, and its message. It changes nothing.`,
		Example:       `  kubectl canary steps checkout -n shop`,
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, namespace, err := connection.load()
			if err != nil {
				return err
			}
			c, err := newCluster(cfg)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if ctx == nil {
				ctx = context.Background()
			}
			ro := get[v1alpha1.Rollout](ctx, c, target{group: "argoproj.io", version: "v1alpha1", resource: "rollouts", namespace: namespace, name: args[0]})
			if ro.Err != nil {
				return ro.Err
			}
			preset := func(name string) (*steps.Preset, error) {
				found := get[corev1.ConfigMap](ctx, c, target{version: "v1", resource: "configmaps", namespace: presets, name: name})
				if found.Err != nil {
					return nil, found.Err
				}
				return steps.ReadPreset([]byte(found.Value.Data[steps.PresetKey]))
			}
			return showSteps(cmd.OutOrStdout(), &ro.Value, preset, time.Now())
		},
	}
	flags := cmd.Flags()
	connection.addFlags(flags)
	flags.StringVar(&presets, "presets-namespace", presets, "namespace of the presets, which is that of the controller")
	return cmd
}

// stepState is what is shown of a plugin step.
type stepState struct {
	// place counts the steps of the Rollout from 1.
	place                                int
	name, state, since, onAbort, message string
}

// showSteps prints the plugin steps of a Rollout. preset returns a preset by its name.
func showSteps(out io.Writer, ro *v1alpha1.Rollout, preset func(string) (*steps.Preset, error), now time.Time) error {
	states := stepStates(ro, preset, now)
	if len(states) == 0 {
		_, err := fmt.Fprintf(out, "Rollout %s/%s has no plugin steps\n", ro.Namespace, ro.Name)
		return err
	}
	all := len(ro.Spec.Strategy.Canary.Steps)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tNAME\tSTATE\tFOR\tON ABORT\tMESSAGE")
	for _, s := range states {
		fmt.Fprintf(w, "%d/%d\t%s\t%s\t%s\t%s\t%s\n", s.place, all, s.name, s.state, s.since, s.onAbort, s.message)
	}
	return w.Flush()
}

func stepStates(ro *v1alpha1.Rollout, preset func(string) (*steps.Preset, error), now time.Time) []stepState {
	if ro.Spec.Strategy.Canary == nil {
		return nil
	}
	var states []stepState
	for i, step := range ro.Spec.Strategy.Canary.Steps {
		if step.Plugin == nil {
			continue
		}
		s := stepState{place: i + 1, name: step.Plugin.Name, state: "to come", since: "-", onAbort: "nothing"}
		config := readStepConfig(step.Plugin, preset)
		s.name = cmp.Or(config.preset, config.id, s.name)
		stored := steps.Stored{}
		for _, found := range ro.Status.Canary.StepPluginStatuses {
			if found.Index != int32(i) || found.Name != step.Plugin.Name {
				continue
			}
			word, since := string(found.Phase), found.StartedAt
			if found.FinishedAt != nil {
				since = found.FinishedAt
			}
			if found.Disabled {
				word = "Disabled"
			}
			if found.Operation != v1alpha1.StepPluginOperationRun {
				word = fmt.Sprintf("%s, %s %s", s.state, found.Operation, word)
			}
			s.state, s.message = word, oneLine(found.Message)
			if since != nil {
				s.since = duration.HumanDuration(now.Sub(since.Time))
			}
			if found.Operation == v1alpha1.StepPluginOperationRun {
				stored, _ = steps.ReadStored(found.Status)
				s.onAbort = config.onAbort(found.Phase, stored)
			} else {
				s.onAbort = "nothing"
			}
		}
		if stored.Attempt > 1 {
			s.state += fmt.Sprintf(", attempt %d", stored.Attempt)
		}
		states = append(states, s)
	}
	return states
}

// stepConfig is what the configuration of a step says of an abort.
type stepConfig struct {
	id, preset string
	// unread is what an abort does where the preset has a say and is not known.
	unread string
	// keys are the Rollout's configuration over the preset's defaults.
	keys map[string]any
}

func readStepConfig(step *v1alpha1.PluginStep, preset func(string) (*steps.Preset, error)) stepConfig {
	// The step itself fails with what is wrong.
	c := stepConfig{keys: steps.Merged(step.Config, &steps.Preset{})}
	c.id, _ = c.keys["id"].(string)
	c.preset, _ = c.keys["use"].(string)
	switch {
	case c.preset != "":
		found, err := preset(c.preset)
		if err != nil {
			c.unread = "what its preset says"
			break
		}
		c.keys = steps.Merged(step.Config, found)
	case step.Name != lint.DefaultName: // it may be registered for one kind, with a preset
		c.unread = "what its preset says, if it has one"
	}
	return c
}

// has tells whether a step of kind http has a request, such as cancel.
func (c stepConfig) has(request string) bool {
	section, _ := c.keys["http"].(map[string]any)
	return section[request] != nil || c.keys[request] != nil
}

// onAbort says what an abort does about a step that has run.
func (c stepConfig) onAbort(phase v1alpha1.StepPluginPhase, stored steps.Stored) string {
	hasEnded := phase != v1alpha1.StepPluginPhaseRunning
	switch {
	case hasEnded && stored.Outcome == steps.NotDone:
		return "nothing" // it has failed, which may be ignored, or is disabled
	case stored.Kind == "job":
		return "deletes its Job"
	case stored.Kind != "http":
		return "nothing"
	}
	key, does := "cancel", "cancels it"
	switch {
	case hasEnded:
		key, does = "onAbort", "undoes it"
	case stored.Outcome == steps.NotDone: // an answer may be on its way
		does = "cancels it if it was started"
	}
	switch {
	case c.has(key):
		return does
	case c.unread != "":
		return c.unread
	default:
		return "nothing: it has no " + key
	}
}
