package xds

import (
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// maxPodName bounds how much of the name of a pod is told, in bytes.
const maxPodName = 150

// namespacesOf returns the namespaces that an Envoy wants, sorted; none for all.
// It refuses a node that is not meant to be here.
func namespacesOf(node *corev3.Node) ([]string, error) {
	if node.GetId() != envoy.NodeID {
		return nil, status.Errorf(codes.InvalidArgument,
			"node id is %q; expected %q: set node.id in Envoy's bootstrap (`interceptor bootstrap` prints one), or --service-node",
			node.GetId(), envoy.NodeID)
	}
	value, there := node.GetMetadata().GetFields()[envoy.NamespacesKey]
	if !there {
		return nil, nil
	}
	namespaces, err := listOf(value)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument,
			"node.metadata.%s %v; expected a list of one namespace or more, or no %s at all for every namespace: set it in Envoy's bootstrap",
			envoy.NamespacesKey, err, envoy.NamespacesKey)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), nil
}

// nameOf returns how an Envoy is called in what is told of it: by the pod that it
// says it is, if it does, and by its address, which may be that of a gateway.
func nameOf(node *corev3.Node, address string) string {
	if pod := node.GetMetadata().GetFields()[envoy.PodKey].GetStringValue(); pod != "" {
		return fmt.Sprintf("kedify-proxy %s, at %s,", printable(clip(pod, maxPodName)), address)
	}
	return "the kedify-proxy at " + address
}

func listOf(value *structpb.Value) ([]string, error) {
	list, is := value.GetKind().(*structpb.Value_ListValue)
	if !is {
		return nil, fmt.Errorf("is %s", brief(value))
	}
	if len(list.ListValue.GetValues()) == 0 {
		return nil, fmt.Errorf("is an empty list")
	}
	var all []string
	for i, v := range list.ListValue.GetValues() {
		name := v.GetStringValue()
		if name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("has %s at %d", brief(v), i)
		}
		all = append(all, name)
	}
	return all, nil
}

func brief(value *structpb.Value) string {
	text, err := value.MarshalJSON()
	if err != nil {
		return "something unreadable"
	}
	if len(text) > 80 {
		return string(text[:80]) + "..."
	}
	return string(text)
}
