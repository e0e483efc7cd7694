// Package e2e tests the plugin from end to end: in a sandbox, driven by the real Argo
// Rollouts controller, which has downloaded the plugin as a user's controller would.
//
// The whole package shares one sandbox, and its tests run at the same time, each
// in a namespace of its own. Tests that disturb the whole cluster are in
// e2e/disruptive, tests that install and configure the plugin in e2e/install, tests
// that disturb the shared proxies in e2e/proxies.
package e2e

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/prometheusrule"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

func TestMain(m *testing.M) {
	os.Exit(e2etest.RunWaitingTests(m, "e2e", interceptor.Name, gatewayapi.Name, prometheusrule.Name))
}
