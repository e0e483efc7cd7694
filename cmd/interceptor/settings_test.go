package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

// defaultSettings returns the settings of an interceptor without flags and variables.
func defaultSettings(t *testing.T) *settings.Settings {
	t.Helper()
	o, err := settings.New(pflag.NewFlagSet("", pflag.ContinueOnError), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFallbackService(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*settings.Settings)
		want   types.NamespacedName
	}{
		"in the pod's namespace": {func(o *settings.Settings) { o.PodNamespace = "keda" }, types.NamespacedName{Namespace: "keda", Name: "keda-add-ons-http-interceptor-fallback"}},
		"elsewhere":              {func(o *settings.Settings) { o.FallbackService = "a/b" }, types.NamespacedName{Namespace: "a", Name: "b"}},
		"none":                   {func(o *settings.Settings) { o.PodNamespace, o.FallbackService = "keda", "" }, types.NamespacedName{}},
	} {
		t.Run(name, func(t *testing.T) {
			o := defaultSettings(t)
			tc.change(o)
			if got, err := fallbackService(o); err != nil || got != tc.want {
				t.Errorf("%v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestInvalidCommandLines(t *testing.T) {
	for says, args := range map[string][]string{
		"--prot":    {"--prot=1"},
		"rutes":     {"rutes"},
		"want json": {"routes", "-o", "xml"},
		`"0" for "--admin-port" flag: expected a port`: {"--admin-port=0"},
		"--tls-cert-file and --tls-key-file":           {"--tls-key-file=k"},
	} {
		if _, err := invoke(args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: error %v, want %q in it", args, err, says)
		}
	}
}

// An invalid variable ends the interceptor, even where a flag overrides it.
func TestInvalidVariables(t *testing.T) {
	cmd := command(func(name string) (string, bool) {
		if name == "KEDA_HTTP_PROXY_PORT" {
			return "http", true
		}
		return "", false
	})
	cmd.SetArgs([]string{"--proxy-port=1"})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), `KEDA_HTTP_PROXY_PORT is "http"; expected a port`) {
		t.Errorf("error %v", err)
	}
}

func TestTheLogTellsOfVariablesWithoutEffectAtStart(t *testing.T) {
	free, of := ports(t)
	// The interceptor exits at once, since two of its ports are the same.
	cmd, out := process(t, append(free, fmt.Sprintf("--admin-port=%d", of["proxy-port"]))...)
	cmd.Env = append(cmd.Env, "KEDIFY_WHATEVER=1")
	if err := cmd.Run(); err == nil || !strings.Contains(out.String(), "KEDIFY_WHATEVER is set and has no effect") {
		t.Errorf("%v\n%s", err, out)
	}
}
