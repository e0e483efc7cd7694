// Package keda tests how workloads scale by KEDA, which runs in the package's sandbox
// from its own manifests, unmodified.
package keda

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/scaler"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

func TestMain(m *testing.M) {
	os.Exit(e2etest.RunWaitingTests(m, "e2e-keda", scaler.Name))
}
