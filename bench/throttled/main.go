// Command throttled is the plugin with client-go's default rate limit, 5
// requests a second with bursts of 10: `make bench` shows with it how a plugin
// performs that keeps the limit.
package main

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

func main() {
	logger, err := rolloutsplugin.NewLogger(os.Stderr, "throttled", "info", "json")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	rolloutsplugin.ServeTrafficRouter(kedify.New(func() (*rest.Config, error) {
		cfg, err := kube.RESTConfig("throttled/dev")
		if err == nil {
			cfg.QPS, cfg.Burst = rest.DefaultQPS, rest.DefaultBurst
		}
		return cfg, err
	}, logger, kedify.Options{SelfHeal: true}), logger)
}
