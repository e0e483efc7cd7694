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
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// maxToldName bounds how much of a name that an Envoy gives itself appears in messages,
// in bytes.
const maxToldName = 150

const (
	// maxNamespaces bounds the namespaces that one Envoy lists, for all of them are
	// kept while it is connected. An Envoy that wants more has to ask for all.
	maxNamespaces = 1000
	// maxNamespaceBytes is the length of the longest name of a namespace.
	maxNamespaceBytes = 63
)

// namespacesOf returns the namespaces that an Envoy wants, sorted; none for all.
// It fails for a node that does not have envoy.NodeID, or has an invalid list.
func namespacesOf(node *corev3.Node) ([]string, error) {
	if node.GetId() != envoy.NodeID {
		return nil, status.Errorf(codes.InvalidArgument,
			"node id is %q; expected %q: set node.id in Envoy's bootstrap (`interceptor bootstrap` prints one), or --service-node",
			clip(node.GetId(), maxToldName), envoy.NodeID)
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

// podOf returns the pod that an Envoy says it is; empty for none.
func podOf(node *corev3.Node) string {
	return printable(clip(node.GetMetadata().GetFields()[envoy.PodKey].GetStringValue(), maxToldName))
}

// podWithin returns the pod that an Envoy says it is, if that is in one of its namespaces;
// empty for none.
func podWithin(pod string, namespaces routes.Namespaces) string {
	if namespace, _, _ := strings.Cut(pod, "/"); namespaces.Has(namespace) {
		return pod
	}
	return ""
}

// name returns what messages call an Envoy: its pod, if the Envoy names one, and its
// address, which may be that of a gateway.
func (st *stream) name() string {
	if st.pod != "" {
		return fmt.Sprintf("kedify-proxy %s, at %s,", st.pod, st.address)
	}
	return "the kedify-proxy at " + st.address
}

func listOf(value *structpb.Value) ([]string, error) {
	list, is := value.GetKind().(*structpb.Value_ListValue)
	if !is {
		return nil, fmt.Errorf("is %s", brief(value))
	}
	switch n := len(list.ListValue.GetValues()); {
	case n == 0:
		return nil, fmt.Errorf("is an empty list")
	case n > maxNamespaces:
		return nil, fmt.Errorf("has %d entries, above %d", n, maxNamespaces)
	}
	var all []string
	for i, v := range list.ListValue.GetValues() {
		name := v.GetStringValue()
		if name == "" || len(name) > maxNamespaceBytes || strings.Contains(name, "/") {
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
