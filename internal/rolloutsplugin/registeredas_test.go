package rolloutsplugin

import "testing"

func TestRegisteredAs(t *testing.T) {
	for path, want := range map[string]string{
		"/home/argo-rollouts/plugin-bin/argoproj-labs/gatewayAPI": "argoproj-labs/gatewayAPI",
		"plugin-bin/acme/gateway":                                 "acme/gateway",
		"/plugin-bin/acme/gateway":                                "acme/gateway",
		"bin/rollouts-plugin-gatewayapi":                          "",
		"rollouts-plugin-gatewayapi":                              "",
		"":                                                        "",
	} {
		if got := RegisteredAs(path); got != want {
			t.Errorf("RegisteredAs(%q) = %q, want %q", path, got, want)
		}
	}
}
