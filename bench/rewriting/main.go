// Command rewriting is a stand-in for a plugin that writes its route at every call: it
// reads the HTTPRoute and updates it, changed or not, with client-go's default rate limit
// of 5 requests a second and bursts of 10. `make bench` compares the Gateway API
// router with it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// pluginName is the name under which a Rollout configures either plugin.
const pluginName = "argoproj-labs/gatewayAPI"

// rewriting has the calls that are measured. It splits the HTTPRoute of a Rollout; every
// rule has the stable and the canary Service, and no other backend.
type rewriting struct {
	rpc.TrafficRouterPlugin // nil: the others are not called
	client                  func() (dynamic.Interface, error)
}

func (rewriting) InitPlugin() types.RpcError { return types.RpcError{} }

func (r rewriting) SetWeight(ro *v1alpha1.Rollout, weight int32, _ []v1alpha1.WeightDestination) types.RpcError {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return rolloutsplugin.CallError(ro, "SetWeight", r.split(ctx, ro, int64(weight)))
}

func (rewriting) VerifyWeight(*v1alpha1.Rollout, int32, []v1alpha1.WeightDestination) (types.RpcVerified, types.RpcError) {
	return types.Verified, types.RpcError{}
}

func (r rewriting) split(ctx context.Context, ro *v1alpha1.Rollout, weight int64) error {
	client, err := r.client()
	if err != nil {
		return err
	}
	canary := ro.Spec.Strategy.Canary
	var config struct {
		HTTPRoute string `json:"httpRoute"`
	}
	if err := json.Unmarshal(canary.TrafficRouting.Plugins[pluginName], &config); err != nil {
		return err
	}
	routes := client.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}).Namespace(ro.Namespace)
	route, err := routes.Get(ctx, config.HTTPRoute, metav1.GetOptions{})
	if err != nil {
		return err
	}
	rules, _, err := unstructured.NestedFieldNoCopy(route.Object, "spec", "rules")
	if err != nil {
		return err
	}
	for _, rule := range rules.([]any) {
		for _, ref := range rule.(map[string]any)["backendRefs"].([]any) {
			switch ref := ref.(map[string]any); ref["name"] {
			case canary.StableService:
				ref["weight"] = 100 - weight
			case canary.CanaryService:
				ref["weight"] = weight
			}
		}
	}
	_, err = routes.Update(ctx, route, metav1.UpdateOptions{})
	return err
}

func main() {
	logger, err := rolloutsplugin.NewLogger(os.Stderr, "rewriting", "info", "json")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	rolloutsplugin.ServeTrafficRouter(rewriting{client: sync.OnceValues(func() (dynamic.Interface, error) {
		config, err := kube.RESTConfig("rewriting/dev")
		if err != nil {
			return nil, err
		}
		config.QPS, config.Burst = rest.DefaultQPS, rest.DefaultBurst
		return dynamic.NewForConfig(config)
	})}, logger)
}
