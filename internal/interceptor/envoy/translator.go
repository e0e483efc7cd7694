package envoy

import (
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Translator turns the content of a routing table into resources. It is immutable and
// safe for any number of goroutines. What it returns shares parts with what it returned
// before: callers must not change it.
type Translator struct {
	options Options
	// Parts that all resources of a kind have.
	cluster clusterParts
	retry   *routev3.RetryPolicy
	idle    *durationpb.Duration
}

// NewTranslator makes a Translator.
func NewTranslator(o Options) *Translator {
	o = o.withDefaults()
	return &Translator{
		options: o,
		cluster: newClusterParts(o),
		retry:   retryPolicy(o.ResponseHeader),
		idle:    durationpb.New(streamIdle),
	}
}

// packed packs a message that this package has made.
func packed(m proto.Message) *anypb.Any {
	a := new(anypb.Any)
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("a message of our own cannot be packed: %v", err)) // only for a text that is not UTF-8, which Kubernetes does not have
	}
	return a
}

func number(n uint32) *wrapperspb.UInt32Value { return wrapperspb.UInt32(n) }

func seconds(n int64) *durationpb.Duration {
	return durationpb.New(time.Duration(n) * time.Second)
}

func adsSource() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		// Envoy waits for a resource without a timeout: the previous one serves
		// meanwhile, and an Envoy that starts is not ready before it has everything.
		InitialFetchTimeout: &durationpb.Duration{},
	}
}
