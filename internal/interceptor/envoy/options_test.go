package envoy

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

func TestOptions(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    string // of the error
	}{
		"none":                 {Options{}, ""},
		"negative header time": {Options{ResponseHeader: -1}, "ResponseHeader is -1ns"},
		"negative connect":     {Options{ConnectTimeout: -time.Second}, "ConnectTimeout is -1s"},
		"negative idle":        {Options{RouteIdleTimeout: -time.Second}, "RouteIdleTimeout is -1s"},
		"one port for both":    {Options{HTTPPort: 80, TLSPort: 80}, "both 80"},
		"the other's default":  {Options{HTTPPort: 8443}, "both 8443"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewTranslator(tt.options)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// A sum of weights beyond 32 bits would have Envoy refuse everybody's routes.
func TestEnvoyWeights(t *testing.T) {
	tests := map[string]struct{ weights, want []uint32 }{
		"as they are":  {[]uint32{80, 20, 0}, []uint32{80, 20, 0}},
		"just fits":    {[]uint32{math.MaxUint32 - 1, 1}, []uint32{math.MaxUint32 - 1, 1}},
		"one too many": {[]uint32{math.MaxUint32, 2}, []uint32{math.MaxUint32 / 2, 1}},
		"many":         {slices.Repeat([]uint32{math.MaxUint32}, 3), slices.Repeat([]uint32{math.MaxUint32 / 3}, 3)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			backends := make([]routes.Backend, len(tt.weights))
			for i, weight := range tt.weights {
				backends[i].Weight = weight
			}
			got := envoyWeights(backends)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v for %v, want %v", got, tt.weights, tt.want)
			}
			var sum uint64
			for _, weight := range got {
				sum += uint64(weight)
			}
			if sum > math.MaxUint32 || sum == 0 {
				t.Errorf("the sum is %d", sum)
			}
		})
	}
}
