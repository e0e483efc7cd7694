package rolloutsplugin

import (
	"bytes"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// panicking panics in every call: the interface it embeds is nil.
type panicking struct{ rpc.TrafficRouterPlugin }

func TestGuardTurnsAPanicIntoTheCallsError(t *testing.T) {
	log := &bytes.Buffer{}
	guard := GuardTrafficRouter(panicking{}, hclog.New(&hclog.LoggerOptions{Output: log}))
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app"}}
	calls := map[string]func() types.RpcError{
		"InitPlugin":          guard.InitPlugin,
		"UpdateHash":          func() types.RpcError { return guard.UpdateHash(ro, "", "", nil) },
		"SetWeight":           func() types.RpcError { return guard.SetWeight(ro, 1, nil) },
		"SetHeaderRoute":      func() types.RpcError { return guard.SetHeaderRoute(ro, nil) },
		"SetMirrorRoute":      func() types.RpcError { return guard.SetMirrorRoute(ro, nil) },
		"RemoveManagedRoutes": func() types.RpcError { return guard.RemoveManagedRoutes(ro) },
		"VerifyWeight": func() types.RpcError {
			verified, err := guard.VerifyWeight(ro, 1, nil)
			if verified != types.NotVerified {
				t.Errorf("a panic is verified: %d", verified)
			}
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			err := call()
			if !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "nil pointer") {
				t.Errorf("error %q names neither the call nor the panic", err)
			}
			if name != "InitPlugin" && !strings.Contains(err.Error(), "Rollout demo/app") {
				t.Errorf("error %q does not name the Rollout", err)
			}
			if !strings.Contains(log.String(), "guard_test.go") {
				t.Errorf("no stack in the log: %s", log)
			}
		})
	}
}
