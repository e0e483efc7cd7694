package demo

import (
	"strings"
	"testing"
)

func TestParseRouter(t *testing.T) {
	for name, tt := range map[string]struct {
		router, proxy string
		wantRouter    Router
		wantProxy     Proxy
		wantError     string
	}{
		"kedify":                         {"kedify", "", Kedify, Embedded, ""},
		"kedify through Envoy":           {"kedify", "envoy", Kedify, Envoy, ""},
		"kedify with another":            {"kedify", "nginx", "", "", `there is no proxy "nginx"`},
		"the Gateway API":                {"gatewayapi", "", GatewayAPI, Gateway, ""},
		"the Gateway API with a proxy":   {"gatewayapi", "envoy", "", "", `proxy "envoy": with router gatewayapi the Gateway's Envoy splits the requests; leave the proxy out`},
		"the guide":                      {"guide", "", Guide, Ingress, ""},
		"the guide with a proxy":         {"guide", "envoy", "", "", `proxy "envoy": in the guide kedify-proxy splits the requests`},
		"canaries with steps":            {"steps", "", Steps, "", ""},
		"these with a proxy":             {"steps", "envoy", "", "", `proxy "envoy": no requests are sent in the demo of steps`},
		"no router":                      {"", "", "", "", `there is no router ""; there are kedify and gatewayapi, guide for the walk through the guide, and steps`},
		"the name of the plugin instead": {"kedify/http", "", "", "", `there is no router "kedify/http"`},
	} {
		t.Run(name, func(t *testing.T) {
			router, proxy, err := ParseRouter(tt.router, tt.proxy)
			if tt.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantError) {
					t.Errorf("the error is %v, want %q in it", err, tt.wantError)
				}
				return
			}
			if err != nil || router != tt.wantRouter || proxy != tt.wantProxy {
				t.Errorf("router %q, proxy %q, %v; want %q, %q", router, proxy, err, tt.wantRouter, tt.wantProxy)
			}
		})
	}
}
