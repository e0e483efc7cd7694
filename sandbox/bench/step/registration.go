package main

import (
	"fmt"
	"os/exec"

	"github.com/argoproj/argo-rollouts/rollout/steps/plugin/rpc"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// registration is a name under which the controller knows a step plugin.
type registration struct {
	name, path string
	args       []string
}

func (w *world) doNothing() registration { return registration{"bench/idle", w.idle, nil} }

// every is the one registration of all steps, with presets.
func (w *world) every() registration {
	return registration{"kedify/step", w.plugin, []string{"--presets-namespace=" + gauge.Namespace, "--secrets-namespace=" + gauge.Namespace, "--allow-host=" + cluster.NodeIP.String()}}
}

// wait is a step that waits.
type wait struct {
	what string
	registration
	// config is the step's configuration in a Rollout of a group, as JSON.
	config func(group string) string
}

// step is the step in a Rollout of a group.
func (w wait) step(group string) string {
	return fmt.Sprintf("{plugin: {name: %s, config: %s}}", w.name, w.config(group))
}

func same(config string) func(string) string { return func(string) string { return config } }

// nothing is the step that the others are compared with.
func (w *world) nothing() wait {
	return wait{"a step that does nothing", w.doNothing(), same("{}")}
}

func (w *world) poll() wait { return wait{"http", w.every(), same(w.outside.config("/runs"))} }

func (w *world) slowPoll() wait {
	return wait{"http, polls answered after " + slowness.String(), w.every(), same(w.outside.config("/slow"))}
}

func (w *world) barrier() wait {
	return wait{fmt.Sprintf("a barrier of %d Rollouts", groupSize+1), w.every(), func(group string) string {
		return `{"rollouts": {"selector": {"matchLabels": {"group": "` + group + `"}}}}`
	}}
}

// use is a step that uses a preset.
func (w *world) use(what, preset string) wait {
	return wait{what, w.every(), same(fmt.Sprintf(`{"use": %q}`, preset))}
}

// process is a registration that was started.
type process struct {
	*gauge.Plugin
	rpc.StepPlugin
}

func (r registration) start() (*process, error) {
	started, err := gauge.StartPlugin(exec.Command(r.path, r.args...), "step", "RpcStepPlugin", &rpc.RpcStepPlugin{})
	if err != nil {
		return nil, err
	}
	p := &process{started, started.Served.(rpc.StepPlugin)}
	if err := p.InitPlugin(); err.HasError() {
		p.Kill()
		return nil, err
	}
	return p, nil
}
