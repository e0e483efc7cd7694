package rolloutsplugin

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// CallError returns the error that answers a call of the controller: empty for nil,
// else one that names the Rollout and the call.
func CallError(ro *v1alpha1.Rollout, call string, err error) types.RpcError {
	if err == nil {
		return types.RpcError{}
	}
	return types.RpcError{ErrorString: fmt.Sprintf("%s for Rollout %s/%s: %v", call, ro.Namespace, ro.Name, err)}
}
