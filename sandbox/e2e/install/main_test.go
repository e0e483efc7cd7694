// Package install tests how the plugin is installed and configured: releases and their
// files, an image, one namespace, moves from an earlier version, and wrong
// registrations. It has a sandbox of its own, and
// its tests run one after the other; each leaves the cluster as it was.
package install

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// name is the name of the Rollout and of the HTTPScaledObject of each test.
const name = canarytest.Name

func TestMain(m *testing.M) { os.Exit(e2etest.RunTests(m, "e2e-install", interceptor.Name)) }
