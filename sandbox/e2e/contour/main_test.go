// Package contour tests a Rollout behind Contour, which runs in the package's
// sandbox from its own manifests.
package contour

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

func TestMain(m *testing.M) { os.Exit(e2etest.RunTests(m, "e2e-contour", contour.Name)) }
