package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

func TestVariablesAndFlags(t *testing.T) {
	tests := map[string]struct {
		variables map[string]string
		args      []string
		is        func(*options) bool
	}{
		"defaults": {is: func(o *options) bool {
			return o.proxyPort == 8080 && o.adminPort == 9090 && o.metricsPort == 2223 && o.fallbackPort == 8081 && o.tlsPort == 8443 && o.certFile == "" && o.watched == ""
		}},
		"variables": {
			variables: map[string]string{"KEDA_HTTP_PROXY_PORT": "81", "KEDA_HTTP_ADMIN_PORT": "82", "KEDA_CONDITION_WAIT_TIMEOUT": "3s", "KEDA_HTTP_WATCH_NAMESPACE": "demo"},
			is: func(o *options) bool {
				return o.proxyPort == 81 && o.adminPort == 82 && o.proxy.ConditionWait == 3*time.Second && o.watched == "demo"
			},
		},
		"a flag wins": {
			variables: map[string]string{"KEDA_HTTP_PROXY_PORT": "81", "KEDA_CONDITION_WAIT_TIMEOUT": "3s"},
			args:      []string{"--proxy-port=83", "--condition-wait-timeout=4s"},
			is:        func(o *options) bool { return o.proxyPort == 83 && o.proxy.ConditionWait == 4*time.Second },
		},
		"TLS where a chart mounts it": {
			variables: map[string]string{"KEDA_HTTP_PROXY_TLS_ENABLED": "true", "KEDA_HTTP_PROXY_TLS_KEY_PATH": "/k", "KEDA_HTTP_PROXY_TLS_PORT": "443"},
			is:        func(o *options) bool { return o.certFile == "/certs/tls.crt" && o.keyFile == "/k" && o.tlsPort == 443 },
		},
		"TLS that is off": {
			variables: map[string]string{"KEDA_HTTP_PROXY_TLS_ENABLED": "false", "KEDA_HTTP_PROXY_TLS_CERT_PATH": "/c"},
			is: func(o *options) bool {
				return o.certFile == "" && len(o.ineffective) == 1 && o.ineffective["KEDA_HTTP_PROXY_TLS_CERT_PATH"] != ""
			},
		},
		"fallback in the pod's namespace": {
			variables: map[string]string{"KEDA_HTTP_CURRENT_NAMESPACE": "keda"},
			is: func(o *options) bool {
				name, err := o.fallback()
				return err == nil && name.String() == "keda/keda-add-ons-http-interceptor-fallback" && o.watched == ""
			},
		},
		"fallback elsewhere": {
			args: []string{"--fallback-service=a/b"},
			is: func(o *options) bool {
				name, err := o.fallback()
				return err == nil && name.String() == "a/b"
			},
		},
		"what tenants may do": {
			args: []string{"--host-ownership", "--max-wildcard-matches-per-namespace=7", "--max-wildcard-matches=8"},
			is: func(o *options) bool {
				return o.policy == routes.Policy{HostOwnership: true, MaxWildcardMatchesPerNamespace: 7, MaxWildcardMatches: 8}
			},
		},
		"no fallback": {
			variables: map[string]string{"KEDA_HTTP_CURRENT_NAMESPACE": "keda"},
			args:      []string{"--fallback-service="},
			is: func(o *options) bool {
				name, err := o.fallback()
				return err == nil && name == types.NamespacedName{}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := readOptions(func(name string) (string, bool) { v, ok := tc.variables[name]; return v, ok })
			if err != nil {
				t.Fatal(err)
			}
			cmd := newServe(func(string) (string, bool) { return "", false })
			cmd.ResetFlags()
			o.flags(cmd.Flags())
			if err := cmd.ParseFlags(tc.args); err != nil {
				t.Fatal(err)
			}
			if err := o.validate(); err != nil {
				t.Error(err)
			}
			if !tc.is(o) {
				t.Errorf("options %+v", o)
			}
		})
	}
}

func TestWhatCannotBeIsAnError(t *testing.T) {
	tests := map[string]struct {
		variables map[string]string
		args      []string
		says      string
	}{
		"port":                   {variables: map[string]string{"KEDA_HTTP_PROXY_PORT": "http"}, says: `KEDA_HTTP_PROXY_PORT is "http"`},
		"duration":               {variables: map[string]string{"KEDA_HTTP_CONNECT_TIMEOUT": "1"}, says: `KEDA_HTTP_CONNECT_TIMEOUT is "1"`},
		"TLS":                    {variables: map[string]string{"KEDA_HTTP_PROXY_TLS_ENABLED": "yes"}, says: "KEDA_HTTP_PROXY_TLS_ENABLED"},
		"key alone":              {args: []string{"--tls-key-file=k"}, says: "--tls-cert-file and --tls-key-file"},
		"port 0":                 {args: []string{"--admin-port=0"}, says: "--admin-port is 0"},
		"fallback, no namespace": {args: []string{"--fallback-service=/x"}, says: `--fallback-service is "/x"`},
		"fallback, no name":      {args: []string{"--fallback-service=x/"}, says: `--fallback-service is "x/"`},
		"fallback, a DNS name":   {args: []string{"--fallback-service=x.keda"}, says: `--fallback-service is "x.keda"`},
		"fallback, three parts":  {args: []string{"--fallback-service=a/b/c"}, says: `--fallback-service is "a/b/c"`},
		"level":                  {args: []string{"--log-level=loud"}, says: `--log-level "loud": want one of debug`},
		"format":                 {args: []string{"--log-format=xml"}, says: `--log-format "xml": want one of json`},
		"wildcards of nobody":    {args: []string{"--max-wildcard-matches-per-namespace=0"}, says: "--max-wildcard-matches-per-namespace"},
		"wildcards of all":       {args: []string{"--max-wildcard-matches=99"}, says: "--max-wildcard-matches"},
		"flag":                   {args: []string{"--prot=1"}, says: "--prot"},
		"command":                {args: []string{"rutes"}, says: "rutes"},
		"proxy setting":          {args: []string{"--retry-after=1ms"}, says: "--retry-after is 1ms; expected 1s or more"},
		"routes, format":         {args: []string{"routes", "-o", "xml"}, says: "want json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := command(func(name string) (string, bool) { v, ok := tc.variables[name]; return v, ok })
			cmd.SetArgs(tc.args)
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want %q in it", err, tc.says)
			}
		})
	}
}
