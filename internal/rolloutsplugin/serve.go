// Package rolloutsplugin is what every plugin of ours shares with its host, the
// Argo Rollouts controller: serving the RPC, a logger whose levels the
// controller keeps, an end when the controller ends, and panics that stay the
// error of one call.
package rolloutsplugin

import (
	"context"
	"os"

	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
)

// The handshake and the dispense key are Argo Rollouts' (rollout/
// trafficrouting/plugin/client).
const (
	cookieKey         = "ARGO_ROLLOUTS_RPC_PLUGIN"
	cookieRouter      = "trafficrouter"
	trafficRouterName = "RpcTrafficRouterPlugin"
)

// StartedByController tells whether this process was started by an Argo
// Rollouts controller as a traffic router plugin, and not by a person.
func StartedByController() bool { return os.Getenv(cookieKey) == cookieRouter }

// ServeTrafficRouter serves a traffic router to the controller that started
// this process until the controller ends it, and exits the process within a
// second when the controller dies. Nothing may be written to os.Stdout before.
func ServeTrafficRouter(router rpc.TrafficRouterPlugin, logger hclog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go OnParentDeath(ctx, func() {
		logger.Warn("the controller that started this plugin is gone, ending")
		os.Exit(1)
	})
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: cookieKey, MagicCookieValue: cookieRouter},
		Plugins: map[string]plugin.Plugin{
			trafficRouterName: &rpc.RpcTrafficRouterPlugin{Impl: GuardTrafficRouter(router, logger)},
		},
		Logger: logger,
	})
}
