// Package rolloutsplugin is what every plugin of ours needs to work with its host, the
// Argo Rollouts controller: serving the RPC, a logger whose levels the controller
// keeps, an exit when the controller ends, and panics that fail only the call they
// happen in.
package rolloutsplugin

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	steprpc "github.com/argoproj/argo-rollouts/rollout/steps/plugin/rpc"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
)

// The handshake and the dispense keys are Argo Rollouts' (rollout/
// trafficrouting/plugin/client and rollout/steps/plugin/client).
const (
	cookieKey         = "ARGO_ROLLOUTS_RPC_PLUGIN"
	cookieRouter      = "trafficrouter"
	cookieStep        = "step"
	trafficRouterName = "RpcTrafficRouterPlugin"
	stepName          = "RpcStepPlugin"
)

// StartedByController tells whether this process was started by an Argo
// Rollouts controller as a traffic router plugin, and not by a person.
func StartedByController() bool { return os.Getenv(cookieKey) == cookieRouter }

// StartedAsStep tells whether this process was started by an Argo Rollouts controller as a
// step plugin.
func StartedAsStep() bool { return os.Getenv(cookieKey) == cookieStep }

// ServeTrafficRouter serves a traffic router to the controller that started
// this process until the controller ends it, and exits the process within a
// second when the controller dies. Nothing may be written to os.Stdout before.
func ServeTrafficRouter(router rpc.TrafficRouterPlugin, logger hclog.Logger) {
	serve(cookieRouter, trafficRouterName, &rpc.RpcTrafficRouterPlugin{Impl: GuardTrafficRouter(router, logger)}, func() {}, logger)
}

// ServeStep serves a step plugin as ServeTrafficRouter does a traffic router. It calls end
// before the process ends, whether the controller ends it, dies, or a SIGTERM comes. The
// controller waits two seconds for that.
func ServeStep(step steprpc.StepPlugin, end func(), logger hclog.Logger) {
	serve(cookieStep, stepName, &steprpc.RpcStepPlugin{Impl: GuardStep(step, logger)}, end, logger)
}

func serve(cookie, name string, served plugin.Plugin, end func(), logger hclog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	end = sync.OnceFunc(end) // a second call waits for the first
	defer end()
	go OnParentDeath(ctx, func() {
		logger.Warn("the controller that started this plugin is gone, ending")
		end()
		os.Exit(1)
	})
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		end()
		os.Exit(1)
	}()
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: cookieKey, MagicCookieValue: cookie},
		Plugins:         map[string]plugin.Plugin{name: served},
		Logger:          logger,
	})
}
