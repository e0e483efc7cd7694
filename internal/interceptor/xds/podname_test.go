package xds

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// An Envoy is no pod of a namespace that it may not have.
func TestPodWithin(t *testing.T) {
	shop := routes.Namespaces{"shop": true}
	for _, tt := range []struct {
		pod        string
		namespaces routes.Namespaces
		want       string
	}{
		{"shop/kedify-proxy-1", nil, "shop/kedify-proxy-1"},
		{"shop/kedify-proxy-1", shop, "shop/kedify-proxy-1"},
		{"bank/kedify-proxy-1", shop, ""},
		{"", shop, ""},
	} {
		if got := podWithin(tt.pod, tt.namespaces); got != tt.want {
			t.Errorf("%q with %v: %q, want %q", tt.pod, tt.namespaces, got, tt.want)
		}
	}
}
