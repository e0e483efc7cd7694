package externalscaler_test

import (
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// text, number and decimal encode a field with this number as KEDA v2.21.0 does.
func text(field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), value)
}

func number(field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), value)
}

func decimal(field protowire.Number, value float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, field, protowire.Fixed64Type), math.Float64bits(value))
}

func join(fields ...[]byte) (all []byte) {
	for _, field := range fields {
		all = append(all, field...)
	}
	return all
}

// Each message has on the wire the fields that KEDA v2.21.0 gives it.
func TestMessagesAreKEDAs(t *testing.T) {
	ref := &externalscaler.ScaledObjectRef{Name: "app", Namespace: "demo", ScalerMetadata: map[string]string{"httpScaledObject": "web"}}
	refOnWire := join(text(1, "app"), text(2, "demo"), text(3, string(join(text(1, "httpScaledObject"), text(2, "web")))))
	for name, tt := range map[string]struct {
		message proto.Message
		onWire  []byte
	}{
		"ScaledObjectRef":  {ref, refOnWire},
		"IsActiveResponse": {&externalscaler.IsActiveResponse{Result: true}, number(1, 1)},
		"GetMetricSpecResponse": {
			&externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{{MetricName: "m", TargetSize: 7, TargetSizeFloat: 6.5}}},
			text(1, string(join(text(1, "m"), number(2, 7), decimal(3, 6.5)))),
		},
		"GetMetricsRequest": {
			&externalscaler.GetMetricsRequest{ScaledObjectRef: ref, MetricName: "m"},
			join(text(1, string(refOnWire)), text(2, "m")),
		},
		"GetMetricsResponse": {
			&externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{{MetricName: "m", MetricValue: 7, MetricValueFloat: 6.5}}},
			text(1, string(join(text(1, "m"), number(2, 7), decimal(3, 6.5)))),
		},
	} {
		t.Run(name, func(t *testing.T) {
			read := tt.message.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(tt.onWire, read); err != nil || !proto.Equal(read, tt.message) {
				t.Errorf("KEDA's %x reads as %v, %v; want %v", tt.onWire, read, err, tt.message)
			}
			written, err := proto.MarshalOptions{Deterministic: true}.Marshal(tt.message)
			if err != nil || string(written) != string(tt.onWire) {
				t.Errorf("%v is written as %x, %v; want %x", tt.message, written, err, tt.onWire)
			}
		})
	}
}

// KEDA calls these methods of this service.
func TestServiceIsKEDAs(t *testing.T) {
	service := externalscaler.ExternalScaler_ServiceDesc
	got := map[string]bool{} // by name: whether it answers with a stream
	for _, method := range service.Methods {
		got[method.MethodName] = false
	}
	for _, stream := range service.Streams {
		got[stream.StreamName] = stream.ServerStreams && !stream.ClientStreams
	}
	want := map[string]bool{"IsActive": false, "StreamIsActive": true, "GetMetricSpec": false, "GetMetrics": false, "StreamMetricSpec": true}
	if service.ServiceName != "externalscaler.ExternalScaler" || len(got) != len(want) {
		t.Errorf("service %s has %v, want %v", service.ServiceName, got, want)
	}
	for method, streams := range want {
		if answers, known := got[method]; !known || answers != streams {
			t.Errorf("method %s: known %v, answers with a stream %v; want %v", method, known, answers, streams)
		}
	}
}
