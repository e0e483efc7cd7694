package main

import (
	"encoding/json"
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
	return registration{"kedify/step", w.plugin, []string{"--presets-namespace=" + gauge.Namespace, "--allow-host=" + cluster.NodeIP.String()}}
}

// ofKind is a registration of one kind, under a name of its own.
func (w *world) ofKind(kind string) registration {
	return registration{"bench/" + kind, w.plugin, []string{kind}}
}

// wait is a step that waits.
type wait struct {
	what string
	registration
	// config is the step's configuration in a Rollout of a group.
	config func(group string) json.RawMessage
}

// nothing is the step that the others are compared with.
func (w *world) nothing() wait {
	return wait{"a step that does nothing", w.doNothing(), func(string) json.RawMessage { return json.RawMessage(`{}`) }}
}

func (w *world) poll() wait {
	return wait{"http", w.every(), func(string) json.RawMessage { return w.outside.config("/runs") }}
}

func (w *world) slowPoll() wait {
	return wait{"http, polls answered after " + slowness.String(), w.every(), func(string) json.RawMessage { return w.outside.config("/slow") }}
}

func (w *world) barrier() wait {
	return wait{fmt.Sprintf("a barrier of %d Rollouts", groupSize+1), w.every(), func(group string) json.RawMessage {
		return json.RawMessage(`{"rollouts": {"selector": {"matchLabels": {"group": "` + group + `"}}}}`)
	}}
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
