package envoy

import (
	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	heapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	"google.golang.org/protobuf/proto"
)

const (
	connectionsMonitor = "envoy.resource_monitors.global_downstream_max_connections"
	heapMonitor        = "envoy.resource_monitors.fixed_heap"
)

// Shares of the allowed heap at which Envoy acts.
const (
	// shrinkAt is where Envoy returns free memory to the kernel.
	shrinkAt = 0.85
	// refuseAt is where new requests are answered 503, as by the embedded proxy.
	refuseAt = 0.9
)

// overloadManager bounds the connections and the memory that clients can make an Envoy
// use.
func overloadManager(o BootstrapOptions) *overloadv3.OverloadManager {
	m := &overloadv3.OverloadManager{ResourceMonitors: []*overloadv3.ResourceMonitor{
		monitor(connectionsMonitor, &connectionsv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: o.MaxConnections}),
	}}
	if o.MaxHeap > 0 {
		m.ResourceMonitors = append(m.ResourceMonitors, monitor(heapMonitor, &heapv3.FixedHeapConfig{MaxHeapSizeBytes: o.MaxHeap}))
		m.Actions = []*overloadv3.OverloadAction{
			atShareOfHeap("envoy.overload_actions.shrink_heap", shrinkAt),
			atShareOfHeap("envoy.overload_actions.stop_accepting_requests", refuseAt),
		}
	}
	return m
}

func monitor(name string, config proto.Message) *overloadv3.ResourceMonitor {
	return &overloadv3.ResourceMonitor{Name: name, ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: packed(config)}}
}

func atShareOfHeap(action string, share float64) *overloadv3.OverloadAction {
	return &overloadv3.OverloadAction{Name: action, Triggers: []*overloadv3.Trigger{{
		Name:         heapMonitor,
		TriggerOneof: &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: share}},
	}}}
}
