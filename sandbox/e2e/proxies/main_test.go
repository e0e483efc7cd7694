// Package proxies tests what disturbs the interceptors and kedify-proxies that tests
// share: restarts, kills, other certificates, a thousand objects. It has a sandbox of
// its own, and its tests run one after the other; each leaves the cluster as it was.
package proxies

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

func TestMain(m *testing.M) { os.Exit(e2etest.RunTests(m, "e2e-proxies", interceptor.Name)) }
